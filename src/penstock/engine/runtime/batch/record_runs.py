"""Records that a subtask holds until its input ends: in order of arrival, or sorted by a key, in bounded memory.

Records are gathered in a list. When they exceed the memory limit, or the slot's budget, the list is written to local
disk as a run, sorted if there is a key, and a new list is started. Reading chains the runs, or merges them. Sorting is
stable: records with equal keys stay in the order of arrival. Source: Flink docs, "Full Window Partition Processing on
DataStream"; FLIP-380.
"""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from penstock.common.functions.script_functions import dumps
from penstock.engine.runtime.batch.key_sorter import (
    BLOCK_BYTES,
    BLOCK_RECORDS_MAX,
    OBJECT_BYTES_PER_BYTE,
    RESERVED_BYTES,
)

if TYPE_CHECKING:
    from penstock.engine.runtime.network.set_aside import SpillFile
    from penstock.engine.runtime.task.context import OperatorContext

_MEASURED_RECORDS = 4
"""So many records of a chunk are pickled, to estimate the size of all."""


class RecordRuns:
    """Holds the records of one operator. `what`: the name of the memory in errors.

    `key`: sorts by it, the greatest first if `descending`. It may raise when records are added or read.
    """

    def __init__(
        self,
        context: OperatorContext,
        what: str,
        *,
        key: Callable[[Any], Any] | None = None,
        descending: bool = False,
    ) -> None:
        self._key = key
        self._descending = descending
        self._open_spill = context.open_spill
        self._memory_bytes = context.sorted_inputs_bytes
        spills = self._open_spill is not None
        self._account = context.memory_account(what, spill=self._spill_for_others if spills else None)
        self._records: list[Any] = []
        self._bytes = 0
        self._file: SpillFile | None = None
        self._runs: list[list[tuple[int, int]]] = []
        """Offset and length of the blocks of each run. All runs are in one file."""
        self._is_read = False

    def add(self, values: list[Any]) -> None:
        """Add records, of which at least one."""
        self._records += values
        measured = values[:: -(-len(values) // _MEASURED_RECORDS)]
        self._bytes += len(dumps(measured)) * len(values) // len(measured) * OBJECT_BYTES_PER_BYTE
        reserved = self._reserve()
        if self._open_spill is not None and (self._bytes > self._memory_bytes or not reserved):
            self._spill()

    def __iter__(self) -> Iterator[Any]:
        """Iterate over all records, in order. They stay."""
        runs: list[Iterable[Any]] = [self._read(run) for run in self._runs]
        runs.append(self._sorted())
        if self._key is None:
            return chain.from_iterable(runs)
        return heapq.merge(*runs, key=self._key, reverse=self._descending)

    def drain(self) -> Iterator[Any]:
        """Yield all records, in order, and forget them at the end. Exhaust the iterator before you add more."""
        self._is_read = True
        yield from self
        self.close()

    def __bool__(self) -> bool:
        return bool(self._records or self._runs)

    def close(self) -> None:
        """Forget all records, and remove the file."""
        self._forget()
        self._runs = []
        self._is_read = False
        if self._file is not None:
            self._file.close()
            self._file = None

    def _sorted(self) -> list[Any]:
        if self._key is not None:
            self._records.sort(key=self._key, reverse=self._descending)
        return self._records

    def _read(self, run: list[tuple[int, int]]) -> Iterator[Any]:
        assert self._file is not None
        for offset, length in run:
            yield from pickle.loads(self._file.read(offset, length))

    def _reserve(self) -> bool:
        more = self._bytes - self._account.bytes_held
        if more <= 0:
            return True
        # In steps: each reservation may have to look up the available memory.
        more = max(more, RESERVED_BYTES, self._account.bytes_held // 8)
        if self._bytes <= RESERVED_BYTES or self._open_spill is None:
            # The first part in any case: smaller runs would be too many.
            self._account.take(more)
            return True
        return self._account.try_reserve(more)

    def _spill_for_others(self) -> None:
        """Release memory that another owner needs, unless it is little, or is being read."""
        if self._records and not self._is_read and self._account.bytes_held > RESERVED_BYTES:
            self._spill()

    def _spill(self) -> None:
        assert self._open_spill is not None
        if self._file is None:
            self._file = self._open_spill()
        count = len(self._records)
        size = max(1, min(BLOCK_RECORDS_MAX, BLOCK_BYTES * OBJECT_BYTES_PER_BYTE * count // max(1, self._bytes)))
        rest = iter(self._sorted())
        run = []
        while block := list(islice(rest, size)):
            data = dumps(block)
            run.append((self._file.write(data), len(data)))
        self._runs.append(run)
        self._forget()

    def _forget(self) -> None:
        self._account.release_all()
        self._records = []
        self._bytes = 0
