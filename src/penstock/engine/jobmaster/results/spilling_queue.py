"""A queue of chunks between two threads that never blocks the one that fills it: past a limit it goes to local disk.

Nothing on the record path may wait for the driver. So a program that is slow to iterate over its results, or does not
at all, costs disk space there, but delays no task.
"""

from __future__ import annotations

import pickle
import tempfile
import threading
from collections import deque
from typing import IO, Any

from penstock.common.completable_future import WAKES_S

RECORDS_IN_MEMORY = 200_000


class SpillingQueue:
    """First in, first out. `put` and `close` are called by one thread, `get` by another."""

    def __init__(self, records_in_memory: int = RECORDS_IN_MEMORY) -> None:
        self._limit = records_in_memory
        self._memory: deque[list[Any]] = deque()
        self._records = 0
        self._spilled: deque[tuple[int, int]] = deque()
        self._file: IO[bytes] | None = None
        self._changed = threading.Condition()
        self._closed = False

    def put(self, values: list[Any]) -> None:
        """Add a chunk."""
        with self._changed:
            # Once a chunk is on disk, later ones must go there too, to keep their order.
            if self._spilled or self._records >= self._limit:
                self._spill(values)
            else:
                self._memory.append(values)
                self._records += len(values)
            self._changed.notify()

    def close(self) -> None:
        """Nothing more will be put."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def get(self) -> list[Any] | None:
        """The next chunk; waits for it. None when the queue is closed and empty."""
        with self._changed:
            while not (self._memory or self._spilled or self._closed):
                self._changed.wait(WAKES_S)
            if self._memory:
                values = self._memory.popleft()
                self._records -= len(values)
                return values
            return self._unspill() if self._spilled else None

    def _spill(self, values: list[Any]) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="penstock-results-")  # noqa: SIM115
        data = pickle.dumps(values, protocol=5)
        offset = self._file.seek(0, 2)
        self._file.write(data)
        self._spilled.append((offset, len(data)))

    def _unspill(self) -> list[Any]:
        assert self._file is not None
        offset, size = self._spilled.popleft()
        self._file.seek(offset)
        values: list[Any] = pickle.loads(self._file.read(size))
        if not self._spilled:
            self._file.close()
            self._file = None
        return values
