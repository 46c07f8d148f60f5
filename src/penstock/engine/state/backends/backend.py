"""The base of all backends of keyed state: tables by name, states by descriptor, the current key.

The table of a state is flat, key -> value; the key group is computed only where it matters. The entry key of window
state is (key, window). Tables have layers (`engine/state/layers.py`), so a snapshot freezes them in one step and writes
only changes. A backend decides where the older layers of a table are: on the heap (`hashmap/`), or in RocksDB. Source:
Flink docs, "State Backends".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast

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
from penstock.engine.state.backends.frozen_store import FrozenStore
from penstock.engine.state.backends.states import KINDS
from penstock.engine.state.backends.ttl_states import TTL_KINDS, TtlState
from penstock.engine.state.collection_tables import ListTable, MapTable
from penstock.engine.state.expiry import Expiry
from penstock.engine.state.handles import KeyedFile
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.schema import TableSchema, check_schema, collection_in, restored_schema, schema_of, untimed
from penstock.engine.state.sliced import Slices
from penstock.engine.state.snapshot.storage import SnapshotStorage
from penstock.engine.state.tables import NewerValues, Table
from penstock.engine.state.timer_table import TimerTable

NO_NAMESPACE: Any = None
T = TypeVar("T", bound=Table)
D = TypeVar("D", bound=StateDescriptor)


class KeyedStateBackend(ABC):
    """All keyed state of one operator in one subtask. `key` (and `namespace`) select the entries that states access."""

    has_store: ClassVar[bool] = False
    """Whether its state is in a store, whose own files are a part of checkpoints: `freeze_store`, `restore_store`."""
    holds_timers = False
    """Whether timers are in its store: `timer_table`. Otherwise they are on the heap."""
    __slots__ = (
        "_expiries",
        "_restored_schemas",
        "_states",
        "_visible_values",
        "declared",
        "key",
        "namespace",
        "newer_values",
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
        """Queryable name of a state -> its table."""
        self.newer_values: dict[str, NewerValues] = {}
        """Name of a table -> what queries read, too: its operator keeps values in memory between snapshots."""
        self._restored_schemas: dict[str, str] = {}
        self.declared: dict[str, StateDescriptor] = {}
        """Name of a state -> the descriptor with which functions declared it."""
        self._states: dict[tuple[str, bool], State] = {}
        self._visible_values: dict[str, Callable[[Any], Any]] = {}
        """Name of a table with a time to live -> the function for `visible_value_of`."""

    def state(self, descriptor: StateDescriptor, namespaced: bool = False) -> Any:
        """Return the state of `descriptor` for the current key, and if `namespaced` for the current namespace.

        Raises ProgramError if the name is in use for a state of another kind or type, CheckpointError if the restored
        state has another kind or type.
        """
        name = descriptor.get_name()
        known = self.declared.setdefault(name, descriptor)
        if known is not descriptor:
            first, other = str(schema_of(known)), str(schema_of(descriptor))
            if first != other:
                raise ProgramError(f"the state '{name}' is declared as {first} and as {other}: use different names")
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
                self.expire(table_name, state.visible_value, state.expiry)
        return state

    def expire(self, table_name: str, visible_value: Callable[[Any], Any], expiry: Expiry | None) -> None:
        """Let the values of a table expire. `visible_value`: see `visible_value_of`."""
        self._visible_values[table_name] = visible_value
        if expiry is not None:
            self._expiries.append(expiry)

    def _note_queryable(self, descriptor: StateDescriptor, table_name: str) -> None:
        name = descriptor.get_queryable_state_name()
        if name is not None and self.queryable.setdefault(name, table_name) != table_name:
            raise ProgramError(f"two states are queryable as '{name}': '{self.queryable[name]}' and '{table_name}'")

    def redeclare(self, descriptor: StateDescriptor) -> None:
        """Replace the declaration of an existing state by one of another function, with the same kind and type."""
        name = descriptor.get_name()
        self.declared[name] = descriptor
        self._note_queryable(descriptor, name)
        for namespaced in (False, True):
            state: Any = self._states.get((name, namespaced))
            if isinstance(state, ReducingState | AggregatingState):
                state.redeclare(descriptor)  # type: ignore[union-attr]

    def undeclare(self, name: str) -> None:
        """Remove the declaration of a state. State that was restored under its name stays."""
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
        """Forget a table that was never written to."""
        del self.tables[name]

    def keys(self, descriptor: StateDescriptor) -> list[Any]:
        """Return the keys that have this state, in any order. Keys of expired state may be among them."""
        self.state(descriptor)
        return list(self.layered(descriptor.get_name()).keys())

    def layered(self, name: str, namespaced: bool = False) -> LayeredTable:
        """Return the table with this name, created if missing. `namespaced`: entry keys are (key, namespace)."""
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = self.make_layered(name, namespaced)
        assert isinstance(table, LayeredTable)
        return table

    @abstractmethod
    def make_layered(self, name: str, namespaced: bool = False) -> LayeredTable:
        """Create a table."""

    def lists(self, name: str, namespaced: bool = False) -> ListTable:
        """Return the table of lists with this name, created if it does not exist."""
        table = self._table_of(name, "list", namespaced)
        assert isinstance(table, ListTable)
        return table

    @abstractmethod
    def make_maps(self, name: str, namespaced: bool = False) -> MapTable:
        """Create a table of maps."""

    @abstractmethod
    def make_lists(self, name: str, namespaced: bool = False) -> ListTable:
        """Create a table of lists."""

    def _table_of(self, name: str, collection: str, namespaced: bool) -> LayeredTable:
        """Return the table of maps ("map"), lists ("list") or single values (""), created if it does not exist."""
        if not collection:
            return self.layered(name, namespaced)
        kind, make = (MapTable, self.make_maps) if collection == "map" else (ListTable, self.make_lists)
        table = self.tables.get(name)
        if not isinstance(table, kind):
            restored: list[tuple[Any, Any]] = []
            if isinstance(table, LayeredTable):
                # A savepoint that a program wrote does not name the kind of its states.
                restored = list(table.items())
                table.clear()
            table = self.tables[name] = make(name, namespaced)
            table.restore([place for place, _ in restored], [content for _, content in restored])
        assert isinstance(table, LayeredTable)
        return table

    @abstractmethod
    def slices(self, name: str, lists: bool = False) -> Slices:
        """Return the contents of windows in the table with this name. `lists`: contents are lists of records."""

    def arrays(self, name: str, make: Callable[[], T]) -> T | None:
        """Return the table of arrays with this name, created with `make` if it does not exist.

        None: tables of this backend are larger than memory, which arrays cannot be.
        """
        return None

    def timer_table(self, name: str) -> TimerTable:
        """Create a table of timers, in a backend that holds timers."""
        raise NotImplementedError(f"{type(self).__name__} holds no timers")

    def needs_full_snapshot(self) -> bool:
        """Whether the next snapshot cannot be incremental."""
        return False

    def freeze_store(self, checkpoint_id: int = 0) -> FrozenStore | None:
        """Freeze the store, with its tables' entries in memory, for a full checkpoint; None if nothing is stored."""
        return None

    def restore_store(self, storage: SnapshotStorage, stores: list[list[KeyedFile]], groups: range) -> list[KeyedFile]:
        """Restore `groups` of these stores, each given by its files, in a backend that has a store.

        The tables must exist. Returns the files that the next snapshot may refer to. Raises CheckpointError.
        """
        raise NotImplementedError(f"{type(self).__name__} has no store")

    def schemas_in_snapshot(self) -> dict[str, TableSchema]:
        """Return the schemas of tables of users' states: the restored schema if no function requested the state yet."""
        restored = {name: schema for name, text in self._restored_schemas.items() if (schema := restored_schema(text))}
        return {**restored, **self.schemas}

    def visible_value_of(self, table_name: str) -> Callable[[Any], Any]:
        """Return a function from a stored value to the value that queries see: without times and expired parts.

        It returns None if nothing is left. It does not count as use of the state, and removes nothing.
        """
        visible_value = self._visible_values.get(table_name)
        if visible_value is not None:
            return visible_value
        # Restored state: the time to live is known only after its function requested the state.
        schema = self._restored_schemas.get(table_name, "")
        return lambda stored: untimed(schema, stored)

    def restored_table(self, name: str, schema: str) -> Table:
        """Return the table into which state of `schema` is restored. `state` refuses another schema afterwards."""
        self._restored_schemas[name] = schema
        table = self.tables.get(name)
        return (
            table if table is not None else self._table_of(name, collection_in(schema), name.startswith(WINDOW_PREFIX))
        )

    def table(self, name: str, make: Callable[[], T]) -> T:
        """Return a table of another kind, created with `make` if it does not exist."""
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = make()
        return cast("T", table)

    def store(self, namespaced: bool = False) -> KeyedStateStore:
        """Return the interface by which users' functions request states."""
        return BackendStateStore(self, namespaced)

    def maintenance_due_ms(self) -> int | None:
        """Return when `maintain` is due (processing time in milliseconds), or None."""
        if not self._expiries:
            return None
        return earliest(*[expiry.next_ms for expiry in self._expiries])

    def maintain(self, entries_max: int) -> None:
        """Remove expired state. Examines at most `entries_max` entries of each state."""
        now_ms = self.now_ms()
        for expiry in self._expiries:
            expiry.expire(now_ms, entries_max)

    def compact(self, entries_max: int) -> bool:
        """Compact some entries of frozen layers into lower layers. Returns False if nothing was left."""
        return any(table.compact(entries_max) for table in self.tables.values())

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        """Handle a completed checkpoint. Only backends that hold older versions outside of checkpoints do something."""

    def close(self) -> None:
        """Close open files and stores."""

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
    raise TypeError(f"expected a {kind.__name__}(name, type) for this state, got {what}")
