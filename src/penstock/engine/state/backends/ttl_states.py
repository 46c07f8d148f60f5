"""Keyed states whose contents expire. Stored values carry the time of their last use in milliseconds.

    value, reducing, aggregating   (used, value)
    list                           [(used, element), ...]
    map                            {key: (used, value), ...}

Each element of a list and each entry of a map has its own time. Source: Flink docs, "Working with State", TTL.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
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
from penstock.api.state.state import AggregatingState, ListState, MapState, ReducingState, State, ValueState
from penstock.api.state.ttl import StateTtlConfig
from penstock.common.functions.result_kinds import awaited
from penstock.engine.state.backends.states import KeyContext
from penstock.engine.state.collection_tables import ListTable, MapTable
from penstock.engine.state.collections import ABSENT
from penstock.engine.state.container_keys import stored_map_key
from penstock.engine.state.expiry import Expiry, ExpiryScan, ExpiryWheel
from penstock.engine.state.keys import check_key
from penstock.engine.state.layers import LayeredTable


class TtlState(State):
    """Base of states with a time to live. `expiry` None: expired state is removed only when it is read."""

    def __init__(self, backend: KeyContext, table: LayeredTable, descriptor: StateDescriptor, namespaced: bool) -> None:
        config = descriptor.ttl_config
        assert config is not None
        self._backend = backend
        self._table = table
        self._namespaced = namespaced
        self._ttl_ms = config.get_ttl().to_milliseconds()
        self._reading_counts = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        self._shows_expired = (
            config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
        )
        self._latest_ms = 0
        self.expiry: Expiry | None = None
        if config.get_cleanup_strategies().cleans_up:
            # Restored entries are examined after one time to live: only the entries know the time of their last use.
            self.expiry = self._expiry(backend.now_ms())

    def _expiry(self, now_ms: int) -> Expiry:
        """Return the expiry of the table's entries. Decodes no entries."""
        table, first_ms = self._table, now_ms + self._ttl_ms
        if table.is_larger_than_memory:
            return ExpiryScan(self._ttl_ms, self._remove_expired, table.entry_keys, first_ms)
        wheel = ExpiryWheel(self._ttl_ms, self._remove_expired, self._is_filed)
        wheel.restored(table.entry_keys(), first_ms)
        return wheel

    def _is_filed(self, entry_key: Any) -> bool:
        """Whether the entry exists, so that it is on the wheel of the state."""
        return self._table.holds(entry_key)

    def _place(self) -> Any:
        backend = self._backend
        return (backend.key, backend.namespace) if self._namespaced else backend.key

    def _now_ms(self) -> int:
        """Return the time, as one object while it is the same: each entry refers to it, and an int takes 32 bytes."""
        now_ms = self._backend.now_ms()
        if now_ms != self._latest_ms:
            self._latest_ms = now_ms
        return self._latest_ms

    def _is_expired(self, used_ms: int, now_ms: int) -> bool:
        return used_ms + self._ttl_ms <= now_ms

    def _touch(self, entry_key: Any, now_ms: int) -> None:
        # Called before the write. The expiry knows the entries of the current layer already.
        if self.expiry is not None and not self._table.current.get(entry_key):
            self.expiry.touch(entry_key, now_ms + self._ttl_ms)

    @abstractmethod
    def visible_value(self, stored: Any) -> Any:
        """Return the parts of a stored value that have not expired, without times, or None. Not a use of the state."""

    @abstractmethod
    def _remove_expired(self, entry_key: Any) -> int | None:
        """Remove expired parts of an entry. Returns when the rest will expire (ms), or None if nothing is left."""

    def put_merged(self, entry_key: Any, parts: list[Any], merge: Callable[[Any, Any], Any]) -> None:
        """Store at `entry_key` the merged contents of windows. `merge` merges two values, or two lists."""
        if not parts:
            return
        self._table.put(entry_key, functools.reduce(merge, parts))
        expires_ms = self._remove_expired(entry_key)
        if expires_ms is not None and self.expiry is not None:
            self.expiry.merged(entry_key, expires_ms)

    def clear(self) -> None:
        self._table.discard(self._place())


class _TtlSingle(TtlState):
    """Base of states with one stored value per key."""

    def _read(self) -> Any:
        entry_key = self._place()
        entry = self._table.get(entry_key)
        if entry is None:
            return None
        used_ms, value = entry
        now_ms = self._backend.now_ms()
        if self._is_expired(used_ms, now_ms):
            # Removed even if it is returned: expired state can be read at most once.
            self._table.remove(entry_key)
            return value if self._shows_expired else None
        if self._reading_counts:
            self._write(value)
        return value

    def _write(self, value: Any) -> None:
        entry_key, now_ms = self._place(), self._now_ms()
        self._touch(entry_key, now_ms)
        self._table.put(entry_key, (now_ms, value))

    def visible_value(self, stored: Any) -> Any:
        used_ms, value = stored
        return None if self._is_expired(used_ms, self._backend.now_ms()) else value

    def put_merged(self, entry_key: Any, parts: list[Any], merge: Callable[[Any, Any], Any]) -> None:
        if len(parts) > 1:
            # A merge counts as a write, and ignores expired values. Source: Flink, TtlReduceFunction.
            now_ms = self._backend.now_ms()
            alive = [value for used_ms, value in parts if self._shows_expired or not self._is_expired(used_ms, now_ms)]
            parts = [(now_ms, functools.reduce(merge, alive))] if alive else []
        super().put_merged(entry_key, parts, merge)

    def _remove_expired(self, entry_key: Any) -> int | None:
        entry = self._table.get(entry_key)
        if entry is None:
            return None
        used_ms: int = entry[0]
        if self._is_expired(used_ms, self._backend.now_ms()):
            self._table.remove(entry_key)
            return None
        return used_ms + self._ttl_ms


class TtlValueState(_TtlSingle, ValueState[Any]):
    """A value state with a time to live."""

    def value(self) -> Any:
        return self._read()

    def update(self, value: Any) -> None:
        if value is None:
            self.clear()
        else:
            self._write(value)


class TtlReducingState(_TtlSingle, ReducingState[Any]):
    """A reducing state with a time to live, which restarts with each added value."""

    def __init__(
        self, backend: KeyContext, table: LayeredTable, descriptor: ReducingStateDescriptor, namespaced: bool
    ) -> None:
        super().__init__(backend, table, descriptor, namespaced)
        self.redeclare(descriptor)

    def redeclare(self, descriptor: ReducingStateDescriptor) -> None:
        """Reduce with the function of `descriptor` from now on."""
        self._reduce: Callable[[Any, Any], Any] = descriptor.get_reduce_function().reduce

    def get(self) -> Any:
        return self._read()

    def add(self, value: Any) -> None:
        before = self._read()
        self._write(value if before is None else awaited(self._reduce(before, value)))


class TtlAggregatingState(_TtlSingle, AggregatingState[Any, Any]):
    """An aggregating state with a time to live, which restarts with each added value."""

    def __init__(
        self, backend: KeyContext, table: LayeredTable, descriptor: AggregatingStateDescriptor, namespaced: bool
    ) -> None:
        super().__init__(backend, table, descriptor, namespaced)
        self.redeclare(descriptor)

    def redeclare(self, descriptor: AggregatingStateDescriptor) -> None:
        """Aggregate with the function of `descriptor` from now on."""
        self._function = descriptor.get_agg_function()

    def get(self) -> Any:
        accumulator = self._read()
        return None if accumulator is None else awaited(self._function.get_result(accumulator))

    def add(self, value: Any) -> None:
        accumulator = self._read()
        if accumulator is None:
            accumulator = awaited(self._function.create_accumulator())
        self._write(awaited(self._function.add(value, accumulator)))


class _TtlCollection(TtlState):
    """Base of lists and maps."""

    def _is_filed(self, entry_key: Any) -> bool:
        # A lookup below the current layer could have to search changes. So the entry is filed again with its first
        # change after each checkpoint.
        return False


class TtlListState(_TtlCollection, ListState[Any]):
    """A list whose elements expire one by one."""

    _table: ListTable

    def get(self) -> Iterable[Any]:
        entry_key, now_ms = self._place(), self._now_ms()
        stored, alive = self._items(entry_key, now_ms)
        shown = stored if self._shows_expired else alive
        if self._reading_counts and alive:
            self._store(entry_key, [(now_ms, value) for _, value in alive], now_ms)
        elif len(alive) < len(stored):
            self._store(entry_key, alive, None)
        return iter([value for _, value in shown])

    def add(self, value: Any) -> None:
        self.add_all([value])

    def add_all(self, values: Iterable[Any]) -> None:
        entry_key, now_ms = self._place(), self._now_ms()
        added = [(now_ms, value) for value in values]
        if added:
            self._touch(entry_key, now_ms)
            self._table.extend(entry_key, added)

    def update(self, values: Iterable[Any]) -> None:
        now_ms = self._now_ms()
        self._store(self._place(), [(now_ms, value) for value in values], now_ms)

    def visible_value(self, stored: Any) -> Any:
        now_ms = self._backend.now_ms()
        return [value for used_ms, value in stored if not self._is_expired(used_ms, now_ms)] or None

    def _items(self, entry_key: Any, now_ms: int) -> tuple[list[tuple[int, Any]], list[tuple[int, Any]]]:
        """Return the stored items of `entry_key`, and those that have not expired."""
        stored: list[tuple[int, Any]] = list(self._table.elements(entry_key))
        return stored, [item for item in stored if not self._is_expired(item[0], now_ms)]

    def _store(self, entry_key: Any, items: list[tuple[int, Any]], touched_ms: int | None) -> None:
        if not items:
            self._table.discard(entry_key)
            return
        if touched_ms is not None:
            self._touch(entry_key, touched_ms)
        self._table.put(entry_key, items)

    def _remove_expired(self, entry_key: Any) -> int | None:
        stored, alive = self._items(entry_key, self._now_ms())
        if len(alive) < len(stored) or not stored:
            self._store(entry_key, alive, None)
        return min(used_ms for used_ms, _ in alive) + self._ttl_ms if alive else None


class TtlMapState(_TtlCollection, MapState[Any, Any]):
    """A dict whose entries expire one by one."""

    _table: MapTable

    def get(self, key: Any) -> Any:
        item = self._read(key)
        return None if item is None else item[1]

    def _read(self, key: Any) -> tuple[int, Any] | None:
        """Return the entry if it is visible. Its value may be None."""
        entry_key, now_ms = self._place(), self._now_ms()
        item: Any = self._table.entry(entry_key, key)
        if item is ABSENT:
            check_key(key)
            return None
        if self._is_expired(item[0], now_ms):
            self._table.remove_entry(entry_key, key)
            return item if self._shows_expired else None
        if self._reading_counts:
            self._table.part(entry_key)[key] = now_ms, item[1]
            self._touch(entry_key, now_ms)
        return item  # type: ignore[no-any-return]

    def put(self, key: Any, value: Any) -> None:
        entry_key, now_ms = self._place(), self._now_ms()
        check_key(key)
        self._touch(entry_key, now_ms)
        self._table.part(entry_key)[stored_map_key(key)] = now_ms, value

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        entry_key, now_ms = self._place(), self._now_ms()
        entries = {stored_map_key(key): (now_ms, value) for key, value in dict(dict_value).items()}
        for key in entries:
            check_key(key)
        if entries:
            self._touch(entry_key, now_ms)
            self._table.put_entries(entry_key, entries)

    def remove(self, key: Any) -> None:
        check_key(key)
        self._table.remove_entry(self._place(), key)

    def contains(self, key: Any) -> bool:
        return self._read(key) is not None

    def items(self) -> Iterator[tuple[Any, Any]]:
        entry_key = self._place()
        return self._visible_entries(entry_key, self._table.entries(entry_key))

    def _visible_entries(
        self, entry_key: Any, entries: Iterator[tuple[Any, tuple[int, Any]]]
    ) -> Iterator[tuple[Any, Any]]:
        """Yield the visible entries. Only entries that the caller reaches count as read. Source: Flink, TtlMapState."""
        for key, (used_ms, value) in entries:
            now_ms = self._now_ms()
            is_expired = self._is_expired(used_ms, now_ms)
            if is_expired or self._reading_counts:
                self._renew(entry_key, key, now_ms)
            if not is_expired or self._shows_expired:
                yield key, value

    def _renew(self, entry_key: Any, key: Any, now_ms: int) -> None:
        """Handle an entry that an iteration reaches: remove it if it has expired, otherwise renew its time."""
        # Read again: the function may have put or removed it since the iteration began.
        item: Any = self._table.entry(entry_key, key)
        if item is ABSENT:
            return
        if self._is_expired(item[0], now_ms):
            self._table.remove_entry(entry_key, key)
        elif self._reading_counts:
            self._table.part(entry_key)[key] = now_ms, item[1]
            self._touch(entry_key, now_ms)

    def keys(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def values(self) -> Iterator[Any]:
        return (value for _, value in self.items())

    def is_empty(self) -> bool:
        # This does not count as use of an entry.
        entry_key, now_ms = self._place(), self._now_ms()
        if self._shows_expired:
            return self._table.is_empty(entry_key)
        has_expired = False
        for _, (used_ms, _) in self._table.scan_entries(entry_key):
            if not self._is_expired(used_ms, now_ms):
                return False
            has_expired = True
        if has_expired:
            self._table.discard(entry_key)
        return True

    def visible_value(self, stored: Any) -> Any:
        now_ms = self._backend.now_ms()
        return {key: value for key, (used_ms, value) in stored.items() if not self._is_expired(used_ms, now_ms)} or None

    def _entries(self, entry_key: Any, now_ms: int) -> tuple[dict[Any, tuple[int, Any]], dict[Any, tuple[int, Any]]]:
        """Return the stored entries of `entry_key`, and those that have not expired."""
        stored: dict[Any, tuple[int, Any]] = dict(self._table.entries(entry_key))
        return stored, {key: item for key, item in stored.items() if not self._is_expired(item[0], now_ms)}

    def _prune(self, entry_key: Any, stored: dict[Any, Any], alive: dict[Any, Any]) -> None:
        if not alive:
            self._table.discard(entry_key)
            return
        for key in [key for key in stored if key not in alive]:
            self._table.remove_entry(entry_key, key)

    def _remove_expired(self, entry_key: Any) -> int | None:
        stored, alive = self._entries(entry_key, self._now_ms())
        # Even without entries: a map whose entries were removed is no longer on the wheel.
        if len(alive) < len(stored) or not stored:
            self._prune(entry_key, stored, alive)
        return min(used_ms for used_ms, _ in alive.values()) + self._ttl_ms if alive else None


TTL_KINDS: dict[type, Callable[..., TtlState]] = {
    ValueStateDescriptor: TtlValueState,
    ListStateDescriptor: TtlListState,
    MapStateDescriptor: TtlMapState,
    ReducingStateDescriptor: TtlReducingState,
    AggregatingStateDescriptor: TtlAggregatingState,
}
