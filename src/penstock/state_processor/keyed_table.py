"""One keyed state of an operator, as all subtasks have it in a snapshot, read a bounded part at a time.

A row is what people see of an entry: the parts of its place, then its value.

    (key, value)                       states of functions, and reduce
    (key, namespace, value)            windows: the namespace is the window, or the time (ms) at which its slice begins
    (key, timestamp, namespace)        timers (ms); the namespace is the window of a window operator's timer
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from penstock.checkpoint.manifest import OperatorPart
from penstock.common.errors import StateNotFoundError
from penstock.runtime.operators.keyed import EVENT_TIMERS_TABLE, PROCESSING_TIMERS_TABLE
from penstock.runtime.windows.sliced_window_operator import ENDED_TABLE, SLICES_TABLE, WAITING_TABLE
from penstock.runtime.windows.window_operator import CONTENTS_TABLE
from penstock.state.descriptors import WINDOW_PREFIX
from penstock.state.handles import KeyedFile
from penstock.state.key_groups import key_group_of, key_group_range
from penstock.state.layers import LayeredTable
from penstock.state.snapshot.files import read_keyed
from penstock.state.tables import PIECE_ENTRIES, Entries, Places
from penstock.state_processor.missing_classes import classes_found
from penstock.state_processor.snapshot_files import SnapshotFiles

TIMERS = {EVENT_TIMERS_TABLE: "event time", PROCESSING_TIMERS_TABLE: "processing time"}
_WINDOWED = {SLICES_TABLE, WAITING_TABLE, ENDED_TABLE, CONTENTS_TABLE}
_SPAN_BYTES = 32 << 20
_ROW_BYTES = 200
"""What a row of a Parquet file is taken for, in memory."""


class TableSize(NamedTuple):
    """How much there is in a table. `bytes` counts what is stored: in a checkpoint, with entries replaced since."""

    entries: int
    bytes: int


def place_columns(table: str) -> list[str]:
    """What the parts of a place are, in a table of that name."""
    if table in TIMERS:
        return ["key", "timestamp", "namespace"]
    if table in _WINDOWED or table.startswith(WINDOW_PREFIX):
        return ["key", "namespace"]
    return ["key"]


def row_columns(table: str) -> list[str]:
    """What the parts of a row are."""
    columns = place_columns(table)
    return columns if table in TIMERS else [*columns, "value"]


def tables_of(part: OperatorPart) -> dict[str, str]:
    """Names of an operator's keyed states, and their kinds and types as far as they are known."""
    files = [file for subtask in part.subtasks for file in subtask.state.keyed]
    return {table.name: table.schema for file in files for table in file.tables}


class KeyedTable:
    """The table `name` of an operator. Raises StateNotFoundError if there is none."""

    def __init__(
        self, files: SnapshotFiles, part: OperatorPart, name: str, allow_missing_classes: bool = False
    ) -> None:
        known = tables_of(part)
        if name not in known:
            raise StateNotFoundError(
                f"operator '{part.state_id}' ({part.name}) has no keyed state '{name}'. It has "
                f"{_listed(known)}. A state that no key has a value in is not part of a savepoint"
            )
        self.name = name
        self.schema = known[name]
        self.columns = row_columns(name)
        self._files = files
        self._part = part
        self._allow_missing = allow_missing_classes

    def chains(self) -> list[tuple[list[KeyedFile], range]]:
        """The files of each subtask that has some of the table, and its key groups."""
        part = self._part
        chains = []
        for subtask in part.subtasks:
            files = [file for file in subtask.state.keyed if any(table.name == self.name for table in file.tables)]
            if files:
                chains.append((files, key_group_range(subtask.subtask, part.max_parallelism, part.parallelism)))
        return chains

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """All of it, by subtask and about by key group."""
        for chain, groups in self.chains():
            yield from self.rows_of_chain(chain, groups)

    def rows_of_chain(self, chain: list[KeyedFile], groups: range) -> Iterator[tuple[Any, ...]]:
        """What the files of one subtask have of some key groups."""
        for places, values in self.pieces(chain, groups):
            yield from self._rows_of(places, values)

    def rows_of_key(self, key: Any) -> Iterator[tuple[Any, ...]]:
        """Those of one key, without reading more than its key group."""
        group = key_group_of(key, self._part.max_parallelism)
        for chain, groups in self.chains():
            if group in groups:
                for places, values in self.pieces(chain, range(group, group + 1)):
                    yield from (row for row in self._rows_of(places, values) if row[0] == key)

    def pieces(self, chain: list[KeyedFile], groups: range) -> Iterator[tuple[Places, Entries]]:
        """Places and values that a chain has of some key groups, in parts that fit into memory."""
        if all(file.columns for file in chain):
            read = read_keyed(self._files, chain, groups, {self.name}, self._files.store_reader)
            while True:
                with classes_found(self._allow_missing):
                    piece = next(read, None)
                if piece is None:
                    return
                yield piece[1], piece[2]
        for span in spans_of(chain, groups):
            entries, _ = self._merged(chain, span)
            places, values = list(entries), list(entries.values())
            for start in range(0, len(places), PIECE_ENTRIES):
                yield places[start : start + PIECE_ENTRIES], values[start : start + PIECE_ENTRIES]

    def size(self) -> TableSize:
        """How much it is. In a checkpoint all of it is read for that, in a savepoint nothing."""
        entries = size = 0
        for chain, groups in self.chains():
            if all(file.columns for file in chain):
                entries += sum(section.length for file in chain for section in file.sections)
                size += sum(file.bytes for file in chain)
                continue
            for span in spans_of(chain, groups):
                merged, read = self._merged(chain, span)
                entries += len(merged)
                size += read
        return TableSize(entries, size)

    def _merged(self, chain: list[KeyedFile], groups: range) -> tuple[dict[Any, Any], int]:
        """What is left of a chain when all that has changed since is taken into account, and how many bytes it was."""
        table, size = LayeredTable(), 0
        with classes_found(self._allow_missing):
            for _, places, values, piece_bytes in read_keyed(
                self._files, chain, groups, {self.name}, self._files.store_reader
            ):
                table.restore(places, values)
                size += piece_bytes
        return dict(table.items()), size

    def _rows_of(self, places: Places, values: Entries) -> Iterator[tuple[Any, ...]]:
        if self.name in TIMERS:
            yield from places
        elif len(self.columns) == 2:
            yield from zip(places, values, strict=True)
        else:
            for place, value in zip(places, values, strict=True):
                yield *place, value


def spans_of(chain: Sequence[KeyedFile], groups: range) -> Iterator[range]:
    """Key groups in ranges of about so many bytes as may be in memory at once."""
    sizes: Counter[int] = Counter()
    for file in chain:
        if file.store_file:
            # It does not tell: as if each group had as much of it.
            sizes.update(dict.fromkeys(groups, file.bytes // len(groups)))
            continue
        for section in file.sections:
            sizes[section.group] += section.length * (_ROW_BYTES if file.columns else 1)
    begin, size = groups.start, 0
    for group in groups:
        size += sizes[group]
        if size >= _SPAN_BYTES:
            yield range(begin, group + 1)
            begin, size = group + 1, 0
    if begin < groups.stop:
        yield range(begin, groups.stop)


def _listed(names: dict[str, str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
