"""Sorts records by key, then by timestamp, in bounded memory.

A dict gathers records by key. When they exceed the memory limit, they are written to local disk as a sorted run, and a
new dict is started. At the end the runs are merged. Keys come in the order of their encoding, with or without spilling,
because a task that runs twice must send the same records. Records of one key and timestamp stay in the order in which
they were added. Source: Flink's SortingDataInput, which sorts serialized keys, then timestamps.
"""

from __future__ import annotations

import heapq
import pickle
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.functions.script_functions import dumps
from penstock.engine.runtime.network.set_aside import SpillFile
from penstock.engine.state.keys import encode_key
from penstock.engine.state.memory_budget import MemoryAccount

UNTIMED = MIN_TIMESTAMP - 1
"""The timestamp of records without one: it sorts before all others, as in Flink."""

Ranked = tuple[int, int, Any]
"""timestamp, number of the run, value"""
_rank: Any = itemgetter(0, 1)
_encoded_key: Any = itemgetter(0)


class Piece(NamedTuple):
    """Records of one key, sorted by timestamp. `timestamps` may be None if all are UNTIMED."""

    encoded_key: bytes
    values: list[Any]
    timestamps: list[int] | None


class SortedRun:
    """Records in a file, sorted by encoded key, then by timestamp. It can be read several times.

    A run is a sequence of *pieces*: records of one key, in order, no more than fit a block. A block is the unit of
    reading: pieces, pickled as lists over all of their records. So merging long runs needs one block of each in memory.
    """

    def __init__(self, file: SpillFile, pieces: Iterable[Piece], block_records: int) -> None:
        self._file = file
        self._blocks: list[tuple[int, int]] = []
        block = _Block()
        for piece in _cut(pieces, block_records):
            block.add(piece)
            if len(block.values) >= block_records:
                self._write(block)
                block = _Block()
        if block.values:
            self._write(block)

    def __iter__(self) -> Iterator[Piece]:
        for offset, length in self._blocks:
            encoded_keys, ends, values, timestamps = pickle.loads(self._file.read(offset, length))
            start = 0
            for encoded_key, end in zip(encoded_keys, ends, strict=True):
                yield Piece(encoded_key, values[start:end], None if timestamps is None else timestamps[start:end])
                start = end

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def _write(self, block: _Block) -> None:
        timestamps = block.timestamps if block.timed else None
        data = dumps((block.encoded_keys, block.ends, block.values, timestamps))
        self._blocks.append((self._file.write(data), len(data)))


class _Block:
    __slots__ = ("encoded_keys", "ends", "timed", "timestamps", "values")

    def __init__(self) -> None:
        self.encoded_keys: list[bytes] = []
        self.ends: list[int] = []
        self.values: list[Any] = []
        self.timestamps: list[int] = []
        self.timed = False

    def add(self, piece: Piece) -> None:
        self.encoded_keys.append(piece.encoded_key)
        self.values += piece.values
        self.ends.append(len(self.values))
        if piece.timestamps is not None:
            self.timed = True
            self.timestamps += piece.timestamps
        else:
            self.timestamps += [UNTIMED] * len(piece.values)


def merged(runs: Iterable[Iterable[Piece]]) -> Iterator[Piece]:
    """Merge the pieces of all runs. Records of one key and timestamp stay in the order of the runs."""
    ranked = (_ranked(number, run) for number, run in enumerate(runs))
    for encoded_key, pieces in groupby(heapq.merge(*ranked), _encoded_key):
        for values, timestamps in _merged_pieces(pieces):
            yield Piece(encoded_key, values, timestamps)


def _ranked(number: int, run: Iterable[Piece]) -> Iterator[tuple[bytes, int, int, Piece]]:
    for piece in run:
        yield piece.encoded_key, UNTIMED if piece.timestamps is None else piece.timestamps[0], number, piece


def _merged_pieces(
    pieces: Iterator[tuple[bytes, int, int, Piece]],
) -> Iterator[tuple[list[Any], list[int] | None]]:
    """Merge the pieces of one key, which come by the rank of their first record: (timestamp, number of the run)."""
    _, _, held_run, held = next(pieces)
    pending: list[Ranked] = []
    for _, first, run, piece in pieces:
        if not pending:
            last = UNTIMED if held.timestamps is None else held.timestamps[-1]
            if (last, held_run) <= (first, run):
                # The usual case: the pieces do not overlap, so records need no comparison.
                yield held.values, held.timestamps
                held, held_run = piece, run
                continue
            pending = _by_record(held_run, held)
        # Records that rank before this piece rank before all later ones.
        done = bisect_right(pending, (first, run), key=_rank)
        if done:
            yield _by_lists(pending[:done])
        pending = sorted([*pending[done:], *_by_record(run, piece)], key=_rank)
    if pending:
        yield _by_lists(pending)
    else:
        yield held.values, held.timestamps


def _by_record(run: int, piece: Piece) -> list[Ranked]:
    timestamps = [UNTIMED] * len(piece.values) if piece.timestamps is None else piece.timestamps
    return [(timestamp, run, value) for timestamp, value in zip(timestamps, piece.values, strict=True)]


def _by_lists(records: list[Ranked]) -> tuple[list[Any], list[int] | None]:
    timestamps = [timestamp for timestamp, _, _ in records]
    return [value for _, _, value in records], None if timestamps[-1] == UNTIMED else timestamps


def _cut(pieces: Iterable[Piece], records_max: int) -> Iterator[Piece]:
    for piece in pieces:
        count = len(piece.values)
        if count <= records_max:
            yield piece
            continue
        for start in range(0, count, records_max):
            part = slice(start, start + records_max)
            timestamps = piece.timestamps[part] if piece.timestamps is not None else None
            yield Piece(piece.encoded_key, piece.values[part], timestamps)


RUNS_MAX = 64
"""When there are so many runs, they are merged into one: each takes a file and a block of memory in a merge."""
BLOCK_BYTES = 1 << 17
BLOCK_RECORDS_MAX = 1024
OBJECT_BYTES_PER_BYTE = 8
"""The size of a record as Python objects, relative to its pickled size, for small tuples. Text needs less."""

KEY_BYTES = 600
"""Overhead of a key: two lists, their bound methods, an entry of the dict."""


RESERVED_BYTES = 1 << 20
"""Memory is reserved in steps of at least this size. The first is taken in any case: smaller runs would be too many."""
_RESERVED_PART = 8
"""Later steps are such a part of what it holds: without a limit, each looks up the available memory."""


class KeySorter:
    """Sorts records. `memory_bytes`: the memory for records, by estimate. Without `open_spill` all stay in memory.

    `memory`: returns an account for what it holds, given a function that spills it: others may need the memory.
    """

    def __init__(
        self,
        memory_bytes: int,
        open_spill: Callable[[], SpillFile] | None,
        memory: Callable[[Callable[[], None] | None], MemoryAccount] | None = None,
    ) -> None:
        self._memory_bytes = memory_bytes
        self._open_spill = open_spill
        self._memory = None if memory is None else memory(self._spill_for_others if open_spill is not None else None)
        self._runs: list[SortedRun] = []
        self._gathered = _Gathered()
        self._timed = False
        self._records = 0
        self._bytes = 0

    def add(self, keys: list[Any], values: list[Any], timestamps: list[int] | None, pickled_bytes: int) -> None:
        """Add records with a pickled size of `pickled_bytes`. Raises KeyTypeError for an invalid key."""
        gathered = self._gathered
        if timestamps is None and not self._timed:
            for key, value in zip(keys, values):  # noqa: B905 - per record
                gathered[key][0](value)
        else:
            if not self._timed:
                self._timed = True
                for records in gathered.records:
                    records.timestamps.extend([UNTIMED] * len(records.values))
            times = [UNTIMED] * len(values) if timestamps is None else timestamps
            for key, value, timestamp in zip(keys, values, times):  # noqa: B905
                add_value, add_timestamp = gathered[key]
                add_value(value)
                add_timestamp(timestamp)
        self._records += len(values)
        self._bytes += pickled_bytes
        memory_bytes = self._bytes * OBJECT_BYTES_PER_BYTE + len(gathered) * KEY_BYTES
        reserved = self._reserve(memory_bytes)
        if self._open_spill is not None and (memory_bytes > self._memory_bytes or not reserved):
            self._spill(self._open_spill)

    def drain(self) -> Iterator[Piece]:
        """Return all records, sorted; pieces in a row may have one key. Exhaust the iterator before you add more."""
        last = self._sorted()
        self._forget()
        # Without runs, avoid a generator in between, which costs time per key.
        return self._merged(last) if self._runs else chain(last, self._drained())

    def _drained(self) -> Iterator[Piece]:
        """Release the memory of what was drained. Yields nothing."""
        self._clear()
        yield from ()

    def _merged(self, last: Iterator[Piece]) -> Iterator[Piece]:
        yield from merged([*self._runs, last])
        self.close()

    def close(self) -> None:
        """Drop all records, and remove the files."""
        for run in self._runs:
            run.close()
        self._runs = []
        self._clear()

    def _reserve(self, memory_bytes: int) -> bool:
        """Reserve memory for what it holds. Returns whether the budget has it."""
        if self._memory is None:
            return True
        held = self._memory.bytes_held
        if memory_bytes <= held:
            return True
        more = max(memory_bytes - held, RESERVED_BYTES, held // _RESERVED_PART)
        if memory_bytes <= RESERVED_BYTES or self._open_spill is None:
            self._memory.take(more)
            return True
        return self._memory.try_reserve(more)

    def _spill_for_others(self) -> None:
        """Spill what it holds, unless that is little, or is being drained."""
        assert self._open_spill is not None
        assert self._memory is not None
        if self._records and self._memory.bytes_held > RESERVED_BYTES:
            self._spill(self._open_spill)

    def _clear(self) -> None:
        if self._memory is not None:
            self._memory.release_all()
        self._forget()

    def _forget(self) -> None:
        self._gathered = _Gathered()
        self._timed = False
        self._records = 0
        self._bytes = 0

    def _spill(self, open_spill: Callable[[], SpillFile]) -> None:
        if len(self._runs) >= RUNS_MAX:
            former = self._runs
            self._runs = [SortedRun(open_spill(), merged(former), self._block_records)]
            for run in former:
                run.close()
        self._runs.append(SortedRun(open_spill(), self._sorted(), self._block_records))
        self._clear()

    @property
    def _block_records(self) -> int:
        return max(1, min(BLOCK_RECORDS_MAX, BLOCK_BYTES * self._records // max(1, self._bytes)))

    def _sorted(self) -> Iterator[Piece]:
        """Return the records in memory, sorted."""
        by_key = sorted([(encode_key(records.key), records) for records in self._gathered.records], key=_encoded_key)
        return _pieces(by_key, self._timed)


def _pieces(by_key: list[tuple[bytes, _Records]], timed: bool) -> Iterator[Piece]:
    for encoded_key, records in by_key:
        if timed:
            yield Piece(encoded_key, *_by_time(records.values, records.timestamps))
        else:
            yield Piece(encoded_key, records.values, None)


def _by_time(values: list[Any], timestamps: list[int]) -> tuple[list[Any], list[int]]:
    ordered = sorted(timestamps)
    if ordered == timestamps:
        return values, timestamps
    order = sorted(range(len(values)), key=timestamps.__getitem__)
    return [values[i] for i in order], ordered


class _Records:
    __slots__ = ("key", "timestamps", "values")

    def __init__(self, key: Any) -> None:
        self.key = key
        self.values: list[Any] = []
        self.timestamps: list[int] = []


class _Gathered(dict[Any, Any]):
    """key -> the bound `append` of its values, and of its timestamps."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[_Records] = []

    def __missing__(self, key: Any) -> tuple[Callable[[Any], None], Callable[[int], None]]:
        records = _Records(key)
        self.records.append(records)
        appends = self[key] = (records.values.append, records.timestamps.append)
        return appends
