"""What all backends of keyed state have in common: tables by name, states by descriptor, the current key.

The table of a state is flat, key -> value; the key group is computed only where groups matter. State of a window is
kept under (key, window). Tables have layers (`engine/state/layers.py`), so that a snapshot freezes them at once and
writes only what has changed. A backend decides where the older layers of a table are: on the heap (`hashmap/`), or in
RocksDB. Source: Flink docs, "State Backends".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
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
from penstock.common.time.earliest import earliest
from penstock.engine.state.backends.states import KINDS
from penstock.engine.state.backends.ttl_states import TTL_KINDS, TtlState
from penstock.engine.state.collection_tables import ListTable, MapTable
from penstock.engine.state.expiry import Expiry
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.schema import TableSchema, as_before, check_schema, collection_in, schema_of, untimed
from penstock.engine.state.sliced import Slices
from penstock.engine.state.tables import Table

NO_NAMESPACE: Any = None
T = TypeVar("T", bound=Table)
D = TypeVar("D", bound=StateDescriptor)


class KeyedStateBackend(ABC):
    """All keyed state of one operator in one subtask. `key` (and `namespace`) select the entries that states access."""

    __slots__ = (
        "_expiries",
        "_restored_schemas",
        "_shown",
        "_states",
        "declared",
        "key",
        "namespace",
        "now_ms",
        "queryable",
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
        self.queryable: dict[str, str] = {}
        """By the names under which states are queried from outside: the table of each."""
        self._restored_schemas: dict[str, str] = {}
        self.declared: dict[str, StateDescriptor] = {}
        """By the names of states, how functions have declared them."""
        self._states: dict[tuple[str, bool], State] = {}
        self._shown: dict[str, Callable[[Any], Any]] = {}
        """By table, of states with a time to live."""

    def state(self, descriptor: StateDescriptor, namespaced: bool = False) -> Any:
        """The state that `descriptor` names, of the current key, and of the current namespace too if `namespaced`.

        Raises ProgramError if the name is in use for a state of another kind or type, CheckpointError if what was
        restored is.
        """
        name = descriptor.get_name()
        known = self.declared.setdefault(name, descriptor)
        if known is not descriptor:
            first, other = str(schema_of(known)), str(schema_of(descriptor))
            if first != other:
                raise ProgramError(
                    f"the state '{name}' is declared as {first}, and as {other}: give them different names"
                )
        state = self._states.get((name, namespaced))
        if state is None:
            table_name = f"{WINDOW_PREFIX}{name}" if namespaced else name
            schema = self.schemas[table_name] = schema_of(descriptor)
            self._note_queryable(descriptor, table_name)
            check_schema(name, self._restored_schemas.get(table_name, ""), schema)
            table = self._table_of(table_name, schema.collection, namespaced)
            kinds = KINDS if descriptor.ttl_config is None else TTL_KINDS
            state = self._states[name, namespaced] = kinds[type(descriptor)](self, table, descriptor, namespaced)
            if isinstance(state, TtlState):
                self._shown[table_name] = state.shown
                if state.expiry is not None:
                    self._expiries.append(state.expiry)
        return state

    def _note_queryable(self, descriptor: StateDescriptor, table_name: str) -> None:
        name = descriptor.get_queryable_state_name()
        if name is not None and self.queryable.setdefault(name, table_name) != table_name:
            raise ProgramError(f"two states are queryable as '{name}': '{self.queryable[name]}' and '{table_name}'")

    def redeclare(self, descriptor: StateDescriptor) -> None:
        """A state that is there is declared by another function from now on, of the same kind and type."""
        name = descriptor.get_name()
        self.declared[name] = descriptor
        self._note_queryable(descriptor, name)
        for namespaced in (False, True):
            state: Any = self._states.get((name, namespaced))
            if isinstance(state, ReducingState | AggregatingState):
                state.redeclare(descriptor)  # type: ignore[union-attr]

    def undeclare(self, name: str) -> None:
        """No function has that state after all. What was restored under its name stays."""
        self.declared.pop(name, None)
        state = self._states.pop((name, False), None)
        if state is None:
            return
        del self.schemas[name]
        self.queryable = {query: table for query, table in self.queryable.items() if table != name}
        self._expiries = [one for one in self._expiries if one is not getattr(state, "expiry", None)]
        if name not in self._restored_schemas:
            self._drop_table(name)

    def _drop_table(self, name: str) -> None:
        """Forget a table in which nothing was ever written."""
        del self.tables[name]

    def keys(self, descriptor: StateDescriptor) -> list[Any]:
        """The keys that have a state of that name, in no particular order. What of it has expired may be among them."""
        self.state(descriptor)
        return list(self.layered(descriptor.get_name()).keys())

    def layered(self, name: str, namespaced: bool = False) -> LayeredTable:
        """The table of that name, created if it does not exist. `namespaced`: it is kept by (key, namespace)."""
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = self.make_layered(name, namespaced)
        assert isinstance(table, LayeredTable)
        return table

    @abstractmethod
    def make_layered(self, name: str, namespaced: bool = False) -> LayeredTable:
        """A new table."""

    def lists(self, name: str, namespaced: bool = False) -> ListTable:
        """The table of lists of that name, created if it does not exist."""
        table = self._table_of(name, "list", namespaced)
        assert isinstance(table, ListTable)
        return table

    @abstractmethod
    def make_maps(self, name: str, namespaced: bool = False) -> MapTable:
        """A new table of maps."""

    @abstractmethod
    def make_lists(self, name: str, namespaced: bool = False) -> ListTable:
        """A new table of lists."""

    def _table_of(self, name: str, collection: str, namespaced: bool) -> LayeredTable:
        """The table for maps ("map"), lists ("list") or single values (""), created if it does not exist."""
        if not collection:
            return self.layered(name, namespaced)
        kind, make = (MapTable, self.make_maps) if collection == "map" else (ListTable, self.make_lists)
        table = self.tables.get(name)
        if not isinstance(table, kind):
            restored: list[tuple[Any, Any]] = []
            if isinstance(table, LayeredTable):
                # A savepoint that was made by hand does not say what kind of state it holds.
                restored = list(table.items())
                table.clear()
            table = self.tables[name] = make(name, namespaced)
            table.restore([place for place, _ in restored], [content for _, content in restored])
        assert isinstance(table, LayeredTable)
        return table

    @abstractmethod
    def slices(self, name: str, lists: bool = False) -> Slices:
        """Contents of windows, in the table of that name. `lists`: they are lists, to which records are added."""

    def schemas_in_snapshot(self) -> dict[str, TableSchema]:
        """Those of tables that users' functions have named; as restored where no one has asked for the state yet."""
        restored = {name: schema for name, text in self._restored_schemas.items() if (schema := as_before(text))}
        return {**restored, **self.schemas}

    def shown(self, table_name: str) -> Callable[[Any], Any]:
        """A function from what a table holds to what may be seen of it from outside: no times, nothing expired.

        It returns None if nothing is left. To call it is no use of the state, and removes nothing.
        """
        shown = self._shown.get(table_name)
        if shown is not None:
            return shown
        # As restored: how long it is to live is known when its function has asked for it.
        schema = self._restored_schemas.get(table_name, "")
        return lambda stored: untimed(schema, stored)

    def restored_table(self, name: str, schema: str) -> Table:
        """The table into which state of `schema` is restored: `state` refuses to read it as another."""
        self._restored_schemas[name] = schema
        table = self.tables.get(name)
        return (
            table if table is not None else self._table_of(name, collection_in(schema), name.startswith(WINDOW_PREFIX))
        )

    def table(self, name: str, make: Callable[[], T]) -> T:
        """A table of another kind, created if it does not exist."""
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = make()
        return cast("T", table)

    def store(self, namespaced: bool = False) -> KeyedStateStore:
        """The states as users' functions ask for them."""
        return BackendStateStore(self, namespaced)

    def maintenance_due_ms(self) -> int | None:
        """When `maintain` has something to do (processing time in milliseconds), or None."""
        if not self._expiries:
            return None
        return earliest(*[expiry.next_ms for expiry in self._expiries])

    def maintain(self, entries_max: int) -> None:
        """Free state whose time to live is over. Examines at most `entries_max` entries of each state."""
        now_ms = self.now_ms()
        for expiry in self._expiries:
            expiry.expire(now_ms, entries_max)

    def compact(self, entries_max: int) -> bool:
        """Compact some entries of frozen layers into the layers below. False: nothing was left to compact."""
        return any(table.compact(entries_max) for table in self.tables.values())

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete. Only what a backend keeps outside of it for older ones is of interest."""

    def close(self) -> None:
        """Release files and stores that are open."""

    def clear(self) -> None:
        """Remove the state of all keys."""
        for table in self.tables.values():
            table.clear()
        for expiry in self._expiries:
            expiry.clear()


class BackendStateStore(KeyedStateStore):
    """Gives access to the states of a backend under PyFlink's names."""

    def __init__(self, backend: KeyedStateBackend, namespaced: bool) -> None:
        self._backend = backend
        self._namespaced = namespaced

    def _get(self, descriptor: StateDescriptor) -> Any:
        return self._backend.state(descriptor, self._namespaced)

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return self._get(_checked(state_descriptor, ValueStateDescriptor))  # type: ignore[no-any-return]

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._get(_checked(state_descriptor, ListStateDescriptor))  # type: ignore[no-any-return]

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return self._get(_checked(state_descriptor, MapStateDescriptor))  # type: ignore[no-any-return]

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        return self._get(_checked(state_descriptor, ReducingStateDescriptor))  # type: ignore[no-any-return]

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        return self._get(_checked(state_descriptor, AggregatingStateDescriptor))  # type: ignore[no-any-return]


def _checked(descriptor: Any, kind: type[D]) -> D:
    if isinstance(descriptor, kind):
        return descriptor
    what = type(descriptor).__name__ if isinstance(descriptor, StateDescriptor) else repr(descriptor)
    raise TypeError(f"this state is declared by a {kind.__name__}(name, type), got {what}")
