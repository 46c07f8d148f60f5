"""Writing snapshots beside the slot's own work: one thread, one snapshot after the other, in their order.

A thread that pickles holds the interpreter. A snapshot is written in steps of a millisecond at most, and after each the
thread lets go, so that the slot's thread gets it back.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable

from penstock.checkpoint.storage import SavepointStorage
from penstock.runtime.task.events import SnapshotFailed, SnapshotWritten
from penstock.runtime.task.snapshot import TaskSnapshot
from penstock.state.snapshot.storage import SnapshotStorage

Answer = tuple[int, SnapshotWritten | SnapshotFailed]


class SnapshotThread:
    """Answers gather in `answers`, as (vertex, event); `ring` is called for each."""

    def __init__(self, storage: SnapshotStorage, ring: Callable[[], None]) -> None:
        self.answers: deque[Answer] = deque()
        self._storage = storage
        self._ring = ring
        self._waiting: queue.SimpleQueue[tuple[int, TaskSnapshot]] = queue.SimpleQueue()
        threading.Thread(target=self._write_all, name="penstock-snapshots", daemon=True).start()

    def write(self, vertex: int, snapshot: TaskSnapshot) -> None:
        """Write this next."""
        self._waiting.put((vertex, snapshot))

    def _write_all(self) -> None:
        while True:
            vertex, snapshot = self._waiting.get()
            self.answers.append((vertex, self._write(snapshot)))
            self._ring()

    def _write(self, snapshot: TaskSnapshot) -> SnapshotWritten | SnapshotFailed:
        began_ns = time.monotonic_ns()
        try:
            storage = SavepointStorage(snapshot.savepoint) if snapshot.savepoint else self._storage
            writing = snapshot.write(storage)
            while True:
                next(writing)
                time.sleep(0)
        except StopIteration as end:
            took_ms = (time.monotonic_ns() - began_ns) / 1e6
            return SnapshotWritten(snapshot.checkpoint_id, end.value, took_ms)
        except Exception as error:
            return SnapshotFailed(snapshot.checkpoint_id, f"{type(error).__name__}: {error}")
