"""Keyed states over layered tables: of each the value, list, map or accumulator of the current key.

An access to a value is one dict lookup. Values are kept by reference until they are frozen; after that, a function
reads a copy of a value that could be changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

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
from penstock.state.backends.key_context import KeyContext
from penstock.state.layers import LayeredTable
from penstock.state.tables import Layer


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
        self._table.remove(self._place())


class KeyedValueState(_KeyedState, ValueState[Any]):
    """One value a key."""

    __slots__ = ()

    def value(self) -> Any:
        return self._table.get(self._place())

    def update(self, value: Any) -> None:
        if value is None:
            self._table.remove(self._place())
        else:
            self._table.put(self._place(), value)


class PlainKeyedValueState(KeyedValueState):
    """Without a namespace: the state that hot loops read and write, so it caches the current layer."""

    __slots__ = ("_layer",)

    def __init__(self, backend: KeyContext, table: LayeredTable, descriptor: StateDescriptor, namespaced: bool) -> None:
        super().__init__(backend, table, descriptor, namespaced)
        table.hold(self)

    def use_layer(self, layer: Layer) -> None:
        """A snapshot has frozen the previous layer."""
        self._layer = layer

    def value(self) -> Any:
        value = self._layer.get(self._backend.key)
        return value if value is not None else self._table.get(self._backend.key)

    def update(self, value: Any) -> None:
        if value is None:
            self._table.remove(self._backend.key)
        else:
            self._layer[self._backend.key] = value


class KeyedListState(_KeyedState, ListState[Any]):
    """One list a key; `get` gives a copy to iterate over."""

    __slots__ = ()

    def get(self) -> Iterable[Any]:
        return iter(list(self._table.get(self._place()) or ()))

    def add(self, value: Any) -> None:
        entry_key = self._place()
        values = self._table.own(entry_key)
        if values is None:
            self._table.put(entry_key, [value])
        else:
            values.append(value)

    def update(self, values: Iterable[Any]) -> None:
        values = list(values)
        if values:
            self._table.put(self._place(), values)
        else:
            self.clear()

    def add_all(self, values: Iterable[Any]) -> None:
        added = list(values)
        if added:
            stored: list[Any] | None = self._table.own(self._place())
            if stored is None:
                self._table.put(self._place(), added)
            else:
                stored.extend(added)


class KeyedMapState(_KeyedState, MapState[Any, Any]):
    """One dict a key; iterations run over a copy, so entries may be changed meanwhile."""

    __slots__ = ()

    def _map(self) -> dict[Any, Any]:
        entries: dict[Any, Any] | None = self._table.get(self._place())
        return {} if entries is None else entries

    def _owned(self) -> dict[Any, Any]:
        entry_key = self._place()
        entries: dict[Any, Any] | None = self._table.own(entry_key)
        if entries is None:
            entries = {}
            self._table.put(entry_key, entries)
        return entries

    def get(self, key: Any) -> Any:
        return self._map().get(key)

    def put(self, key: Any, value: Any) -> None:
        self._owned()[key] = value

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        if dict_value:
            self._owned().update(dict_value)

    def remove(self, key: Any) -> None:
        entries = self._table.own(self._place())
        if entries is not None and key in entries:
            del entries[key]
            if not entries:
                self.clear()

    def contains(self, key: Any) -> bool:
        return key in self._map()

    def items(self) -> Iterator[tuple[Any, Any]]:
        return iter(list(self._map().items()))

    def keys(self) -> Iterator[Any]:
        return iter(list(self._map()))

    def values(self) -> Iterator[Any]:
        return iter(list(self._map().values()))

    def is_empty(self) -> bool:
        return not self._map()


class KeyedReducingState(_KeyedState, ReducingState[Any]):
    """One value a key, reduced as values are added."""

    __slots__ = ("_reduce",)

    def __init__(
        self, backend: KeyContext, table: LayeredTable, descriptor: ReducingStateDescriptor, namespaced: bool
    ) -> None:
        super().__init__(backend, table, descriptor, namespaced)
        self._reduce: Callable[[Any, Any], Any] = descriptor.get_reduce_function().reduce

    def get(self) -> Any:
        return self._table.get(self._place())

    def add(self, value: Any) -> None:
        entry_key = self._place()
        before = self._table.get(entry_key)
        self._table.put(entry_key, value if before is None else self._reduce(before, value))


class KeyedAggregatingState(_KeyedState, AggregatingState[Any, Any]):
    """One accumulator a key."""

    __slots__ = ("_function",)

    def __init__(
        self, backend: KeyContext, table: LayeredTable, descriptor: AggregatingStateDescriptor, namespaced: bool
    ) -> None:
        super().__init__(backend, table, descriptor, namespaced)
        self._function = descriptor.get_agg_function()

    def get(self) -> Any:
        accumulator = self._table.get(self._place())
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        entry_key = self._place()
        accumulator = self._table.get(entry_key)
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._table.put(entry_key, self._function.add(value, accumulator))


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
