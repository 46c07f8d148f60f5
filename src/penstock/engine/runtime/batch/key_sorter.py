"""Sorts records by key, and those of a key by timestamp, in bounded memory.

Records are gathered by key in a dict; when they take more memory than they may, they are written to local disk as a
sorted run and a new dict is begun. At the end the runs are merged. Keys come in the order of their encoding, whether
something was spilled or not, because a task that runs twice must send the same. Records of one key and timestamp stay
in the order in which they were added. Source: Flink's SortingDataInput, which sorts serialised keys, then timestamps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from penstock.engine.runtime.batch.sorted_run import UNTIMED, Piece, SortedRun, merged
from penstock.engine.runtime.network.set_aside import SpillFile
from penstock.engine.state.keys import encode_key

RUNS_MAX = 64
"""So many runs are merged into one before more are written: each takes a file and a block of memory in the merge."""
BLOCK_BYTES = 1 << 17
BLOCK_RECORDS_MAX = 1024
OBJECT_BYTES_PER_BYTE = 8
"""How many times its pickled size a record takes as Python objects: what small tuples take; text takes less."""

KEY_BYTES = 600
"""What a key takes beside its records: two lists, their bound methods, an entry of the dict."""


class KeySorter:
    """`memory_bytes`: how much the records in memory may take, by estimate. Without `open_spill` nothing is spilled."""

    def __init__(self, memory_bytes: int, open_spill: Callable[[], SpillFile] | None) -> None:
        self._memory_bytes = memory_bytes
        self._open_spill = open_spill
        self._runs: list[SortedRun] = []
        self._gathered = _Gathered()
        self._timed = False
        self._records = 0
        self._bytes = 0

    def add(self, keys: list[Any], values: list[Any], timestamps: list[int] | None, pickled_bytes: int) -> None:
        """Add records; they were `pickled_bytes` long. Raises KeyTypeError if something cannot be a key."""
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
        taken = self._bytes * OBJECT_BYTES_PER_BYTE + len(gathered) * KEY_BYTES
        if taken > self._memory_bytes and self._open_spill is not None:
            self._spill(self._open_spill)

    def drain(self) -> Iterator[Piece]:
        """All records, sorted; several pieces in a row may have one key. Exhaust it before more is added."""
        last = self._sorted()
        self._forget()
        # Without runs, no generator of ours in between: it is paid per key.
        return self._merged(last) if self._runs else last

    def _merged(self, last: Iterator[Piece]) -> Iterator[Piece]:
        yield from merged([*self._runs, last])
        self.close()

    def close(self) -> None:
        """Drop all records, and free the space on disk."""
        for run in self._runs:
            run.close()
        self._runs = []
        self._forget()

    def _forget(self) -> None:
        self._gathered = _Gathered()
        self._timed = False
        self._records = 0
        self._bytes = 0

    def _spill(self, open_spill: Callable[[], SpillFile]) -> None:
        if len(self._runs) >= RUNS_MAX:
            before = self._runs
            self._runs = [SortedRun(open_spill(), merged(before), self._block_records)]
            for run in before:
                run.close()
        self._runs.append(SortedRun(open_spill(), self._sorted(), self._block_records))
        self._forget()

    @property
    def _block_records(self) -> int:
        return max(1, min(BLOCK_RECORDS_MAX, BLOCK_BYTES * self._records // max(1, self._bytes)))

    def _sorted(self) -> Iterator[Piece]:
        """What is in memory now."""
        by_key = sorted([(encode_key(records.key), records) for records in self._gathered.records], key=_encoded_key)
        return _pieces(by_key, self._timed)


_encoded_key: Any = itemgetter(0)


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
