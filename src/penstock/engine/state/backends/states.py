"""Keyed states over layered tables: the value, list, map or accumulator of the current key.

An access to a value is one dict lookup; an access to an entry of a map or the end of a list is a few. Values are stored
by reference; while a snapshot reads them, functions receive copies of mutable values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from penstock.api.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.api.state.state import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    State,
    ValueState,
)
from penstock.common.errors import ProgramError
from penstock.common.functions.result_kinds import awaited
from penstock.engine.state.collection_tables import ListTable, MapTable
from penstock.engine.state.collections import ABSENT
from penstock.engine.state.container_keys import stored_map_key
from penstock.engine.state.keys import check_key
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.tables import Layer


class KeyContext(Protocol):
    """The part of a backend that its states use: the current key and namespace, and processing time (ms)."""

    key: Any
    namespace: Any
    now_ms: Callable[[], int]


class _NoKey:
    """The current key while records without a key are processed. A lookup of state with it raises an error."""

    def __hash__(self) -> int:
        raise ProgramError(
            "there is no current key: keyed state and timers can't be used while a broadcast record is processed. "
            "Use ctx.apply_to_keyed_state(descriptor, function) for the state of all keys"
        )


NO_KEY: Any = _NoKey()


class _KeyedState:
    """Base: finds the entry of the current key in the table of the state."""

    __slots__ = ("_backend", "_namespaced", "_table")

    def __init__(self, backend: KeyContext, table: LayeredTable, descriptor: StateDescriptor, namespaced: bool) -> None:
        self._backend = backend
        self._table = table
        self._namespaced = namespaced

    def _place(self) -> Any:
        backend = self._backend
        return (backend.key, backend.namespace) if self._namespaced else backend.key

    def clear(self) -> None:
        self._table.discard(self._place())


class KeyedValueState(_KeyedState, ValueState[Any]):
    """A state with one value per key."""

    __slots__ = ()

    def value(self) -> Any:
        return self._table.get(self._place())

    def update(self, value: Any) -> None:
        if value is None:
            self._table.discard(self._place())
        else:
            self._table.put(self._place(), value)


class PlainKeyedValueState(KeyedValueState):
    """A value state without a namespace. Hot loops read and write it, so it caches the current layer."""

    __slots__ = ("_layer",)

    def __init__(self, backend: KeyContext, table: LayeredTable, descriptor: StateDescriptor, namespaced: bool) -> None:
        super().__init__(backend, table, descriptor, namespaced)
        table.register(self)

    def use_layer(self, layer: Layer) -> None:
        """Use a new current layer: a snapshot has frozen the previous one."""
        self._layer = layer

    def value(self) -> Any:
        value = self._layer.get(self._backend.key)
        return value if value is not None else self._table.get(self._backend.key)

    def update(self, value: Any) -> None:
        if value is None:
            self._table.discard(self._backend.key)
        else:
            self._layer[self._backend.key] = value


class KeyedListState(_KeyedState, ListState[Any]):
    """A state with one list per key. `get` returns the elements at the time of the call."""

    __slots__ = ()
    _table: ListTable

    def get(self) -> Iterable[Any]:
        return self._table.elements(self._place())

    def add(self, value: Any) -> None:
        self._table.part(self._place()).append(value)

    def update(self, values: Iterable[Any]) -> None:
        values = list(values)
        if values:
            self._table.put(self._place(), values)
        else:
            self.clear()

    def add_all(self, values: Iterable[Any]) -> None:
        added = list(values)
        if added:
            self._table.extend(self._place(), added)


class KeyedMapState(_KeyedState, MapState[Any, Any]):
    """A state with one dict per key. Iterations show the entries at the time of the call, so these may be changed."""

    __slots__ = ()
    _table: MapTable

    def get(self, key: Any) -> Any:
        value = self._table.entry(self._place(), key)
        if value is ABSENT:
            check_key(key)
            return None
        return value

    def put(self, key: Any, value: Any) -> None:
        check_key(key)
        self._table.part(self._place())[stored_map_key(key)] = value

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        # Pairs may come from an iterator, which can be read only once.
        entries = {stored_map_key(key): value for key, value in dict(dict_value).items()}
        for key in entries:
            check_key(key)
        if entries:
            self._table.put_entries(self._place(), entries)

    def remove(self, key: Any) -> None:
        check_key(key)
        self._table.remove_entry(self._place(), key)

    def contains(self, key: Any) -> bool:
        found = self._table.entry(self._place(), key) is not ABSENT
        if not found:
            check_key(key)
        return found

    def items(self) -> Iterator[tuple[Any, Any]]:
        return self._table.entries(self._place())

    def keys(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def values(self) -> Iterator[Any]:
        return (value for _, value in self.items())

    def is_empty(self) -> bool:
        return self._table.is_empty(self._place())


class KeyedReducingState(_KeyedState, ReducingState[Any]):
    """A state with one value per key, reduced as values are added."""

    __slots__ = ("_reduce",)

    def __init__(
        self, backend: KeyContext, table: LayeredTable, descriptor: ReducingStateDescriptor, namespaced: bool
    ) -> None:
        super().__init__(backend, table, descriptor, namespaced)
        self.redeclare(descriptor)

    def redeclare(self, descriptor: ReducingStateDescriptor) -> None:
        """Reduce with the function of `descriptor` from now on."""
        self._reduce: Callable[[Any, Any], Any] = descriptor.get_reduce_function().reduce

    def get(self) -> Any:
        return self._table.get(self._place())

    def add(self, value: Any) -> None:
        entry_key = self._place()
        before = self._table.get(entry_key)
        self._table.put(entry_key, value if before is None else awaited(self._reduce(before, value)))


class KeyedAggregatingState(_KeyedState, AggregatingState[Any, Any]):
    """A state with one accumulator per key."""

    __slots__ = ("_function",)

    def __init__(
        self, backend: KeyContext, table: LayeredTable, descriptor: AggregatingStateDescriptor, namespaced: bool
    ) -> None:
        super().__init__(backend, table, descriptor, namespaced)
        self.redeclare(descriptor)

    def redeclare(self, descriptor: AggregatingStateDescriptor) -> None:
        """Aggregate with the function of `descriptor` from now on."""
        self._function = descriptor.get_agg_function()

    def get(self) -> Any:
        accumulator = self._table.get(self._place())
        return None if accumulator is None else awaited(self._function.get_result(accumulator))

    def add(self, value: Any) -> None:
        entry_key = self._place()
        accumulator = self._table.get(entry_key)
        if accumulator is None:
            accumulator = awaited(self._function.create_accumulator())
        self._table.put(entry_key, awaited(self._function.add(value, accumulator)))


def _value_state(
    backend: KeyContext, table: LayeredTable, descriptor: StateDescriptor, namespaced: bool
) -> KeyedValueState:
    return (KeyedValueState if namespaced else PlainKeyedValueState)(backend, table, descriptor, namespaced)


KINDS: dict[type, Callable[..., State]] = {
    ValueStateDescriptor: _value_state,
    ListStateDescriptor: KeyedListState,
    MapStateDescriptor: KeyedMapState,
    ReducingStateDescriptor: KeyedReducingState,
    AggregatingStateDescriptor: KeyedAggregatingState,
}
