"""Keyed state of one completed checkpoint, asked for by key.

A key is looked for in its key group: of each file of its subtask one section is read. So the sections are the index,
and what an answer costs grows with the entries of a key group, not with those of the state. Groups that were read are
kept, the latest up to a limit of bytes. Files of RocksDB can't be read in parts: the first question copies and opens
them.
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
from penstock.engine.state.queryable_names import no_queryable_name
from penstock.engine.state.schema import untimed

KEPT_BYTES = 32 << 20
"""Of sections of key groups, as stored: values take some times as much in memory."""


class StateName(NamedTuple):
    """A keyed state, by its operator's uid and its own name."""

    uid: str
    state: str


class StateInfo(NamedTuple):
    """What is known of a keyed state without reading it."""

    uid: str
    operator: str
    """Its name."""
    state: str
    type: str
    """Kind and type, as the job declares them; "" if a savepoint was made by hand."""
    queryable_names: list[str]


class _Group(NamedTuple):
    rows: dict[Any, list[tuple[Any, ...]]]
    bytes: int


class CommittedState:
    """Of the checkpoint at `path`. Raises CheckpointError if there is none; may be used by several threads."""

    def __init__(self, path: str, kept_bytes: int = KEPT_BYTES) -> None:
        # All: keys are of any subtask, and each would be copied and opened again.
        self._snapshot = SnapshotOnDisk(path, stores_kept=sys.maxsize)
        self._kept_bytes = kept_bytes
        self._groups: OrderedDict[tuple[StateName, int], _Group] = OrderedDict()
        self._tables: dict[StateName, KeyedTable] = {}
        self._lock = threading.Lock()

    @property
    def checkpoint_id(self) -> int:
        """Its number."""
        return self._snapshot.manifest.checkpoint_id

    @property
    def completed_ms(self) -> int:
        """When it was completed, in milliseconds since the epoch."""
        return self._snapshot.manifest.completed_ms

    def states(self) -> list[StateInfo]:
        """All keyed states that functions have named."""
        return [
            StateInfo(part.state_id, part.name, state, schema, sorted(_names_of(part, state)))
            for part in self._snapshot.manifest.operators
            for state, schema in tables_of(part).items()
            if not state.startswith("(")
        ]

    def named(self, queryable_name: str) -> StateName:
        """The state that is queryable by a name. Raises StateNotFoundError if there is none, or more than one."""
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
        raise no_queryable_name(queryable_name, states)

    def table(self, name: StateName) -> KeyedTable:
        """The table of a state. Raises StateNotFoundError if there is none."""
        table = self._tables.get(name)
        if table is None:
            part = self._snapshot.part(name.uid)
            table = self._tables[name] = KeyedTable(self._snapshot.files, part, name.state, allow_missing_classes=True)
        return table

    def of_key(self, name: StateName, key: Any) -> list[tuple[Any, ...]]:
        """The entries of a key: none, one, or one for each window. Each has the columns of its table.

        Raises StateNotFoundError, KeyTypeError if it can be no key, CheckpointError if files can't be read.
        """
        kept = as_key(key)
        group = key_group_of(kept, self._snapshot.part(name.uid).max_parallelism)
        return self._group(name, group).get(kept, [])

    def scan(self, name: StateName, limit: int) -> list[tuple[Any, ...]]:
        """The first entries, by key group. Raises what `of_key` raises."""
        groups = range(self._snapshot.part(name.uid).max_parallelism)
        return list(islice(self._rows(name, groups), limit))

    def _rows(self, name: StateName, groups: range) -> Iterator[tuple[Any, ...]]:
        for group in groups:
            for rows in self._group(name, group).values():
                yield from rows

    def _group(self, name: StateName, group: int) -> dict[Any, list[tuple[Any, ...]]]:
        # One at a time: two readers of a group would read it twice, and a store's files can be opened once.
        with self._lock:
            known = self._groups.get((name, group))
            if known is None:
                known = self._groups[name, group] = self._read(name, group)
                while len(self._groups) > 1 and sum(one.bytes for one in self._groups.values()) > self._kept_bytes:
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
