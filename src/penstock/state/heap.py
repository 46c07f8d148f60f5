"""Keyed state on the heap: Python objects in one dict per state and subtask.

The table of a state is flat, key -> value: an access is one dict lookup, and the key group is worked out only where
groups matter. State of a window is kept under (key, window). Tables have layers (`layers.py`), so a snapshot freezes
them at once and writes what has changed. Values are kept by reference until they are frozen; after that, what a
function reads is a copy if it could be changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from penstock.api.state.descriptors import (
    WINDOW_PREFIX,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.api.state.state import (
    AggregatingState,
    KeyedStateStore,
    ListState,
    MapState,
    ReducingState,
    State,
    ValueState,
)
from penstock.common.errors import ProgramError
from penstock.state.database import Databases, FrozenDatabase
from penstock.state.expiry import Expiry
from penstock.state.heap_ttl import TTL_KINDS
from penstock.state.layers import LayeredTable
from penstock.state.schema import TableSchema, check_schema, schema_of
from penstock.state.sliced import SlicedTable, Slices
from penstock.state.tables import Layer, Table

NO_NAMESPACE: Any = None
T = TypeVar("T", bound=Table)


class HeapKeyedBackend:
    """All keyed state of one operator in one subtask. `key` (and `namespace`) say whose state is meant."""

    __slots__ = (
        "_descriptors",
        "_expiries",
        "_restored_schemas",
        "_states",
        "key",
        "namespace",
        "now_ms",
        "schemas",
        "tables",
    )

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.now_ms = now_ms
        self._expiries: list[Expiry] = []
        self.key: Any = None
        self.namespace: Any = NO_NAMESPACE
        self.tables: dict[str, Table] = {}
        self.schemas: dict[str, TableSchema] = {}
        """Kinds and types of the tables that users' functions have named."""
        self._restored_schemas: dict[str, str] = {}
        self._descriptors: dict[str, StateDescriptor] = {}
        self._states: dict[tuple[str, bool], State] = {}

    def state(self, descriptor: StateDescriptor, namespaced: bool = False) -> Any:
        """The state that `descriptor` names, of the current key, and of the current namespace too if `namespaced`.

        Raises ProgramError if the name is in use for a state of another kind, CheckpointError if what was restored is
        of another kind or type.
        """
        name = descriptor.get_name()
        known = self._descriptors.setdefault(name, descriptor)
        if type(known) is not type(descriptor):
            raise ProgramError(
                f"the state '{name}' is declared as {type(known).__name__} and as {type(descriptor).__name__}: "
                "give them different names"
            )
        state = self._states.get((name, namespaced))
        if state is None:
            table_name = f"{WINDOW_PREFIX}{name}" if namespaced else name
            schema = self.schemas[table_name] = schema_of(descriptor)
            check_schema(name, self._restored_schemas.get(table_name, ""), schema)
            table = self.layered(table_name, namespaced)
            kinds = _KINDS if descriptor.ttl_config is None else TTL_KINDS
            state = self._states[name, namespaced] = kinds[type(descriptor)](self, table, descriptor, namespaced)
            expiry = getattr(state, "expiry", None)
            if expiry is not None:
                self._expiries.append(expiry)
        return state

    def layered(self, name: str, namespaced: bool = False) -> LayeredTable:
        """The table of that name, made if it is not there. `namespaced`: it is kept by (key, namespace)."""
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = self.make_layered(name, namespaced)
        assert isinstance(table, LayeredTable)
        return table

    def make_layered(self, name: str, namespaced: bool = False) -> LayeredTable:
        """A new table."""
        return LayeredTable(namespaced)

    def slices(self, name: str) -> Slices:
        """Contents of windows, in the table of that name."""
        return self.table(name, SlicedTable)

    def restored_table(self, name: str, schema: str) -> Table:
        """The table of that name, for what a snapshot has of it, and as what: `state` refuses to give it as another."""
        self._restored_schemas[name] = schema
        table = self.tables.get(name)
        return table if table is not None else self.layered(name, name.startswith(WINDOW_PREFIX))

    def table(self, name: str, make: Callable[[], T]) -> T:
        """A table of another kind, made if it is not there."""
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = make()
        return cast("T", table)

    def store(self, namespaced: bool = False) -> KeyedStateStore:
        """The states as users' functions ask for them."""
        return HeapStateStore(self, namespaced)

    def housekeeping_at_ms(self) -> int | None:
        """When there is state whose time to live may be over."""
        if not self._expiries:
            return None
        return min((at for expiry in self._expiries if (at := expiry.next_ms) is not None), default=None)

    def keep_house(self, entries_max: int) -> None:
        """Free state whose time to live is over, looking at no more than so many entries of each."""
        now_ms = self.now_ms()
        for expiry in self._expiries:
            expiry.expire(now_ms, entries_max)

    def fold(self, entries_max: int) -> bool:
        """Do some of the work that freezes have left behind. False: there is none."""
        return any(table.fold(entries_max) for table in self.tables.values())

    def has_to_be_full(self) -> bool:
        """Whether the next snapshot can't be of changes."""
        return False

    def freeze_database(self) -> FrozenDatabase | None:
        """Freeze what a key-value store holds, and the tables in it; None: there is none."""
        return None

    def databases(self) -> Databases:
        """What reads the stores' files of snapshots for it."""
        return Databases()

    def begin_with(self, tables: list[str], files: Mapping[str, Iterator[bytes]]) -> bool:
        """Put a store's files, with these tables, in the place of what there is. False: it can't be done."""
        return False

    def close(self) -> None:
        """Release what is open."""

    def clear(self) -> None:
        """Forget the state of all keys."""
        for table in self.tables.values():
            table.clear()
        for expiry in self._expiries:
            expiry.clear()


class HeapStateStore(KeyedStateStore):
    """Gives out the states of a backend by PyFlink's names."""

    def __init__(self, backend: HeapKeyedBackend, namespaced: bool) -> None:
        self._backend = backend
        self._namespaced = namespaced

    def _get(self, descriptor: StateDescriptor) -> Any:
        return self._backend.state(descriptor, self._namespaced)

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return self._get(state_descriptor)  # type: ignore[no-any-return]

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._get(state_descriptor)  # type: ignore[no-any-return]

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return self._get(state_descriptor)  # type: ignore[no-any-return]

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        return self._get(state_descriptor)  # type: ignore[no-any-return]

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        return self._get(state_descriptor)  # type: ignore[no-any-return]


class _HeapState:
    """Where in its table the state of the current key lies."""

    __slots__ = ("_backend", "_namespaced", "_table")

    def __init__(
        self, backend: HeapKeyedBackend, table: LayeredTable, descriptor: StateDescriptor, namespaced: bool
    ) -> None:
        self._backend = backend
        self._table = table
        self._namespaced = namespaced

    def _place(self) -> Any:
        backend = self._backend
        return (backend.key, backend.namespace) if self._namespaced else backend.key

    def clear(self) -> None:
        self._table.remove(self._place())


class HeapValueState(_HeapState, ValueState[Any]):
    """One value a key."""

    __slots__ = ()

    def value(self) -> Any:
        return self._table.get(self._place())

    def update(self, value: Any) -> None:
        if value is None:
            self._table.remove(self._place())
        else:
            self._table.put(self._place(), value)


class PlainHeapValueState(HeapValueState):
    """Without a namespace: the state that hot loops read and write, so it has the current layer at hand."""

    __slots__ = ("_layer",)

    def __init__(
        self, backend: HeapKeyedBackend, table: LayeredTable, descriptor: StateDescriptor, namespaced: bool
    ) -> None:
        super().__init__(backend, table, descriptor, namespaced)
        table.hold(self)

    def use_layer(self, layer: Layer) -> None:
        """A snapshot has frozen the layer before."""
        self._layer = layer

    def value(self) -> Any:
        value = self._layer.get(self._backend.key)
        return value if value is not None else self._table.get(self._backend.key)

    def update(self, value: Any) -> None:
        if value is None:
            self._table.remove(self._backend.key)
        else:
            self._layer[self._backend.key] = value


class HeapListState(_HeapState, ListState[Any]):
    """One list a key; `get` gives a copy to iterate over."""

    __slots__ = ()

    def get(self) -> Iterable[Any]:
        return iter(list(self._table.get(self._place()) or ()))

    def add(self, value: Any) -> None:
        place = self._place()
        values = self._table.own(place)
        if values is None:
            self._table.put(place, [value])
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


class HeapMapState(_HeapState, MapState[Any, Any]):
    """One dict a key; iterations run over a copy, so entries may be changed meanwhile."""

    __slots__ = ()

    def _map(self) -> dict[Any, Any]:
        entries: dict[Any, Any] | None = self._table.get(self._place())
        return {} if entries is None else entries

    def _owned(self) -> dict[Any, Any]:
        place = self._place()
        entries: dict[Any, Any] | None = self._table.own(place)
        if entries is None:
            entries = {}
            self._table.put(place, entries)
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


class HeapReducingState(_HeapState, ReducingState[Any]):
    """One value a key, reduced as values are added."""

    __slots__ = ("_reduce",)

    def __init__(
        self, backend: HeapKeyedBackend, table: LayeredTable, descriptor: ReducingStateDescriptor, namespaced: bool
    ) -> None:
        super().__init__(backend, table, descriptor, namespaced)
        self._reduce: Callable[[Any, Any], Any] = descriptor.get_reduce_function().reduce

    def get(self) -> Any:
        return self._table.get(self._place())

    def add(self, value: Any) -> None:
        place = self._place()
        before = self._table.get(place)
        self._table.put(place, value if before is None else self._reduce(before, value))


class HeapAggregatingState(_HeapState, AggregatingState[Any, Any]):
    """One accumulator a key."""

    __slots__ = ("_function",)

    def __init__(
        self, backend: HeapKeyedBackend, table: LayeredTable, descriptor: AggregatingStateDescriptor, namespaced: bool
    ) -> None:
        super().__init__(backend, table, descriptor, namespaced)
        self._function = descriptor.get_agg_function()

    def get(self) -> Any:
        accumulator = self._table.get(self._place())
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        place = self._place()
        accumulator = self._table.get(place)
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._table.put(place, self._function.add(value, accumulator))


def _value_state(
    backend: HeapKeyedBackend, table: LayeredTable, descriptor: StateDescriptor, namespaced: bool
) -> HeapValueState:
    return (HeapValueState if namespaced else PlainHeapValueState)(backend, table, descriptor, namespaced)


_KINDS: dict[type, Callable[..., State]] = {
    ValueStateDescriptor: _value_state,
    ListStateDescriptor: HeapListState,
    MapStateDescriptor: HeapMapState,
    ReducingStateDescriptor: HeapReducingState,
    AggregatingStateDescriptor: HeapAggregatingState,
}
