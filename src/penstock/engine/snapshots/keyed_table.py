"""A keyed state of an operator in a snapshot, over all subtasks, read in parts of bounded size.

A row is the user's view of an entry: the parts of its position (key, namespace, timestamp), then its value.

    (key, value)                       states of functions, and reduce
    (key, namespace, value)            windows: the namespace is the window, or the start time (ms) of its slice; of
                                       interval joins: the start of a span of time (ms)
    (key, timestamp, namespace)        timers (ms); the namespace is the window of a window operator's timer
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from penstock.api.state.descriptors import WINDOW_PREFIX
from penstock.common.errors import StateNotFoundError
from penstock.engine.checkpoint.manifest import OperatorPart
from penstock.engine.runtime.operators.interval_join import LEFT_TABLE, RIGHT_TABLE
from penstock.engine.runtime.operators.keyed import EVENT_TIMERS_TABLE, PROCESSING_TIMERS_TABLE
from penstock.engine.runtime.windows.sliced_window_operator import (
    CARRIED_TABLE,
    ENDED_TABLE,
    OWN_TABLE,
    SHARED_TABLE,
    SLICES_TABLE,
    WAITING_TABLE,
)
from penstock.engine.runtime.windows.window_operator import CONTENTS_TABLE, EVICTED_TABLE
from penstock.engine.snapshots.missing_classes import classes_found
from penstock.engine.snapshots.snapshot_files import SnapshotFiles
from penstock.engine.state.container_keys import as_key
from penstock.engine.state.handles import KeyedFile
from penstock.engine.state.key_groups import key_group_of, key_group_range
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.snapshot.files import read_keyed
from penstock.engine.state.snapshot.moved_keys import check_owner
from penstock.engine.state.snapshot.storage import ReadPart, sections_of
from penstock.engine.state.tables import PIECE_ENTRIES, Entries, EntryKeys

TIMERS = {EVENT_TIMERS_TABLE: "event time", PROCESSING_TIMERS_TABLE: "processing time"}
_WINDOWED = {
    *(SLICES_TABLE, SHARED_TABLE, OWN_TABLE, CARRIED_TABLE, WAITING_TABLE, ENDED_TABLE),
    *(CONTENTS_TABLE, EVICTED_TABLE, LEFT_TABLE, RIGHT_TABLE),
}
SPAN_BYTES = 32 << 20
"""The most bytes of a table that are in memory at the same time."""
_ROW_BYTES = 200
"""Assumed size in memory of a row of a Parquet file, in bytes."""


class TableSize(NamedTuple):
    """Size of a table. `bytes` is the stored size: in a checkpoint, it includes entries that were replaced since."""

    entries: int
    bytes: int


def place_columns(table: str) -> list[str]:
    """Return the names of an entry's position columns, by name of the table."""
    if table in TIMERS:
        return ["key", "timestamp", "namespace"]
    if table in _WINDOWED or table.startswith(WINDOW_PREFIX):
        return ["key", "namespace"]
    return ["key"]


def row_columns(table: str) -> list[str]:
    """Return the names of a row's columns."""
    columns = place_columns(table)
    return columns if table in TIMERS else [*columns, "value"]


def tables_of(part: OperatorPart) -> dict[str, str]:
    """Return the names of an operator's keyed states, with kind and type as far as known."""
    files = [file for subtask in part.subtasks for file in subtask.state.keyed]
    return {table.name: table.schema for file in files for table in file.tables}


class KeyedTable:
    """The table `name` of an operator. Raises StateNotFoundError if it does not exist."""

    def __init__(
        self, files: SnapshotFiles, part: OperatorPart, name: str, allow_missing_classes: bool = False
    ) -> None:
        known = tables_of(part)
        if name not in known:
            raise StateNotFoundError(
                f"operator '{part.state_id}' ({part.name}) has no keyed state '{name}'. It has "
                f"{_listed(known)}. A savepoint does not contain a state without any values"
            )
        self.name = name
        self.schema = known[name]
        self.columns = row_columns(name)
        self._files = files
        self._part = part
        self._allow_missing = allow_missing_classes

    def chains(self) -> list[tuple[list[KeyedFile], range]]:
        """Return, for each subtask that has entries of the table, its files and key groups."""
        part = self._part
        chains = []
        for subtask in part.subtasks:
            files = [file for file in subtask.state.keyed if any(table.name == self.name for table in file.tables)]
            if files:
                chains.append((files, key_group_range(subtask.subtask, part.max_parallelism, part.parallelism)))
        return chains

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield all rows, by subtask and approximately by key group."""
        for chain, groups in self.chains():
            check_owners(self._files.read, chain, groups)
            yield from self.rows_of_chain(chain, groups)

    def rows_of_chain(self, chain: list[KeyedFile], groups: range) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of some key groups in the files of one subtask."""
        for entry_keys, values in self.pieces(chain, groups):
            yield from self._rows_of(entry_keys, values)

    def rows_of_key(self, key: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of one key, reading its key group only."""
        group = key_group_of(as_key(key), self._part.max_parallelism)
        for chain, groups in self.chains():
            if group in groups:
                for entry_keys, values in self.pieces(chain, range(group, group + 1)):
                    yield from (row for row in self._rows_of(entry_keys, values) if row[0] == key)

    def of_group(self, group: int) -> tuple[list[tuple[Any, ...]], int]:
        """Return the rows of one key group, and about how many bytes were read for them."""
        only = range(group, group + 1)
        chain = next((chain for chain, groups in self.chains() if group in groups), [])
        if all(file.columns for file in chain):
            rows = list(self.rows_of_chain(chain, only))
            return rows, len(rows) * _ROW_BYTES
        entries, size = self._merged(chain, only)
        return list(self._rows_of(list(entries), list(entries.values()))), size

    def pieces(self, chain: list[KeyedFile], groups: range) -> Iterator[tuple[EntryKeys, Entries]]:
        """Yield positions and values of some key groups of a chain, in parts that fit into memory."""
        if all(file.columns for file in chain):
            read = self._read(chain, groups)
            while True:
                with classes_found(self._allow_missing):
                    piece = next(read, None)
                if piece is None:
                    return
                yield piece[1], piece[2]
        # A chain of increments must be merged: a later file replaces or deletes entries of earlier ones. One span of
        # key groups at a time, which bounds memory.
        for span in spans_of(self._files.read, chain, groups):
            entries, _ = self._merged(chain, span)
            entry_keys, values = list(entries), list(entries.values())
            for start in range(0, len(entry_keys), PIECE_ENTRIES):
                yield entry_keys[start : start + PIECE_ENTRIES], values[start : start + PIECE_ENTRIES]

    def size(self) -> TableSize:
        """Return the size. This reads a whole checkpoint, but nothing of a savepoint."""
        entries = size = 0
        for chain, groups in self.chains():
            if all(file.columns for file in chain):
                entries += sum(section.length for file in chain for section in file.sections)
                size += sum(file.bytes for file in chain)
                continue
            for span in spans_of(self._files.read, chain, groups):
                merged, read = self._merged(chain, span)
                entries += len(merged)
                size += read
        return TableSize(entries, size)

    def _merged(self, chain: list[KeyedFile], groups: range) -> tuple[dict[Any, Any], int]:
        """Return the entries of a chain after applying all increments in order, and the number of bytes read."""
        table, size = LayeredTable(), 0
        with classes_found(self._allow_missing):
            for _, entry_keys, values, piece_bytes in self._read(chain, groups):
                table.restore(entry_keys, values)
                size += piece_bytes
        return dict(table.items()), size

    def _read(self, chain: list[KeyedFile], groups: range) -> Iterator[tuple[str, EntryKeys, Entries, int]]:
        return read_keyed(self._files, chain, groups, {self.name}, store_reader=self._files.store_reader)

    def _rows_of(self, entry_keys: EntryKeys, values: Entries) -> Iterator[tuple[Any, ...]]:
        if self.name in TIMERS:
            yield from entry_keys
        elif len(self.columns) == 2:
            yield from zip(entry_keys, values, strict=True)
        else:
            for entry_key, value in zip(entry_keys, values, strict=True):
                yield *entry_key, value


def check_owners(read: ReadPart, chain: Sequence[KeyedFile], groups: range) -> None:
    """Raise CheckpointError if the files of a subtask have keys of others, which would be left out in silence.

    Files of a store do not tell the key groups of their entries.
    """
    for file in chain:
        if not file.store_file:
            check_owner(sections_of(read, file), groups)


def spans_of(read: ReadPart, chain: Sequence[KeyedFile], groups: range) -> Iterator[range]:
    """Yield ranges of key groups whose estimated size fits into memory."""
    sizes: Counter[int] = Counter()
    for file in chain:
        if file.store_file:
            # A store has no size per key group: assume a uniform distribution.
            sizes.update(dict.fromkeys(groups, file.bytes // len(groups)))
            continue
        for section in sections_of(read, file):
            sizes[section.group] += section.length * (_ROW_BYTES if file.columns else 1)
    begin, size = groups.start, 0
    for group in groups:
        size += sizes[group]
        if size >= SPAN_BYTES:
            yield range(begin, group + 1)
            begin, size = group + 1, 0
    if begin < groups.stop:
        yield range(begin, groups.stop)


def _listed(names: dict[str, str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
