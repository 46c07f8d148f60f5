"""Read keyed state of one completed checkpoint by key.

A lookup reads the key group of the key: one section of each file of its subtask. So the sections are the index, and the
cost of a lookup grows with the entries of a key group, not with the size of the state. The latest key groups are
cached, up to a limit in bytes. RocksDB files cannot be read in parts: the first lookup copies and opens them.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from penstock.common.errors import StateNotFoundError
from penstock.engine.checkpoint.manifest import OperatorPart
from penstock.engine.snapshots.keyed_table import TIMERS, KeyedTable, tables_of
from penstock.engine.snapshots.snapshot_files import SnapshotOnDisk
from penstock.engine.state.container_keys import as_key
from penstock.engine.state.key_groups import key_group_of
from penstock.engine.state.queryable_names import unknown_queryable_name
from penstock.engine.state.schema import untimed

CACHE_BYTES = 32 << 20
"""The most bytes of cached key groups, in their stored size; values take several times as much in memory."""


class StateName(NamedTuple):
    """A keyed state, by its operator's uid and its own name."""

    uid: str
    state: str


class StateInfo(NamedTuple):
    """Properties of a keyed state that are known without reading it."""

    uid: str
    operator: str
    """The name of the operator."""
    state: str
    type: str
    """Kind and type as the job declares them; empty for a savepoint that a program wrote."""
    queryable_names: list[str]


class _Group(NamedTuple):
    rows: dict[Any, list[tuple[Any, ...]]]
    bytes: int


class CommittedState:
    """The keyed state of the checkpoint at `path`. Raises CheckpointError if there is no checkpoint. Thread-safe."""

    def __init__(self, path: str, cache_bytes: int = CACHE_BYTES) -> None:
        # All databases stay open: lookups alternate between subtasks, and each would be copied and opened again.
        self._snapshot = SnapshotOnDisk(path, open_stores=sys.maxsize)
        self._cache_bytes = cache_bytes
        self._groups: OrderedDict[tuple[StateName, int], _Group] = OrderedDict()
        self._tables: dict[StateName, KeyedTable] = {}
        self._lock = threading.Lock()

    @property
    def checkpoint_id(self) -> int:
        """The number of the checkpoint."""
        return self._snapshot.manifest.checkpoint_id

    @property
    def completed_ms(self) -> int:
        """When the checkpoint completed, in milliseconds since 1970."""
        return self._snapshot.manifest.completed_ms

    def states(self) -> list[StateInfo]:
        """Return all keyed states that functions have named."""
        return [
            StateInfo(
                uid=part.state_id,
                operator=part.name,
                state=state,
                type=schema,
                queryable_names=sorted(_names_of(part, state)),
            )
            for part in self._snapshot.manifest.operators
            for state, schema in tables_of(part).items()
            if not state.startswith("(")
        ]

    def named(self, queryable_name: str) -> StateName:
        """Return the state with a queryable name. Raises StateNotFoundError unless exactly one state has it."""
        found = {
            StateName(part.state_id, subtask.state.queryable[queryable_name])
            for part in self._snapshot.manifest.operators
            for subtask in part.subtasks
            if queryable_name in subtask.state.queryable
        }
        if len(found) == 1:
            return found.pop()
        if found:
            uids = ", ".join(sorted(name.uid for name in found))
            raise StateNotFoundError(f"several operators have a state that is queryable as '{queryable_name}': {uids}")
        states = [(info.uid, info.state, info.queryable_names) for info in self.states()]
        raise unknown_queryable_name(queryable_name, states)

    def table(self, name: StateName) -> KeyedTable:
        """Return the table of a state. Raises StateNotFoundError if it does not exist."""
        table = self._tables.get(name)
        if table is None:
            part = self._snapshot.part(name.uid)
            table = self._tables[name] = KeyedTable(self._snapshot.files, part, name.state, allow_missing_classes=True)
        return table

    def of_key(self, name: StateName, key: Any) -> list[tuple[Any, ...]]:
        """Return the entries of a key, with the columns of the table: one, or one for each window, or an empty list.

        Raises StateNotFoundError, KeyTypeError for a type that keys cannot have, CheckpointError if files cannot be
        read.
        """
        stored_key = as_key(key)
        group = key_group_of(stored_key, self._snapshot.part(name.uid).max_parallelism)
        return self._group(name, group).get(stored_key, [])

    def scan(self, name: StateName, limit: int) -> list[tuple[Any, ...]]:
        """Return the first entries, by key group. Raises the errors of `of_key`."""
        groups = range(self._snapshot.part(name.uid).max_parallelism)
        return list(islice(self._rows(name, groups), limit))

    def _rows(self, name: StateName, groups: range) -> Iterator[tuple[Any, ...]]:
        for group in groups:
            for rows in self._group(name, group).values():
                yield from rows

    def _group(self, name: StateName, group: int) -> dict[Any, list[tuple[Any, ...]]]:
        # One thread at a time: two would read a group twice, and a store's files can be opened only once.
        with self._lock:
            known = self._groups.get((name, group))
            if known is None:
                known = self._groups[name, group] = self._read(name, group)
                while len(self._groups) > 1 and sum(one.bytes for one in self._groups.values()) > self._cache_bytes:
                    self._groups.popitem(last=False)
            self._groups.move_to_end((name, group))
            return known.rows

    def _read(self, name: StateName, group: int) -> _Group:
        table = self.table(name)
        rows: dict[Any, list[tuple[Any, ...]]] = {}
        found, size = table.of_group(group)
        for row in found:
            shown = row if table.name in TIMERS else (*row[:-1], untimed(table.schema, row[-1]))
            rows.setdefault(row[0], []).append(shown)
        return _Group(rows, size)


def _names_of(part: OperatorPart, state: str) -> set[str]:
    return {name for subtask in part.subtasks for name, own in subtask.state.queryable.items() if own == state}
