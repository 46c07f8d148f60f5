"""Writing snapshots beside the slot's own work: one thread, one snapshot after the other, in the order of requests.

A thread that pickles holds the interpreter's lock. So a snapshot is written in steps of a millisecond at most, and the
thread releases the lock after each, so that the slot's thread can run. Why it is a thread and no process is said in
docs/internals/decisions/0003-full-snapshots-by-a-thread.md.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

from penstock.common.errors.disk_errors import advice_on
from penstock.common.functions.user_calls import RAISED
from penstock.common.job_threads import Failed, serve
from penstock.engine.checkpoint.storage import SavepointStorage
from penstock.engine.runtime.task.events import SnapshotFailed, SnapshotWritten
from penstock.engine.runtime.task.snapshot import TaskSnapshot
from penstock.engine.state.snapshot.storage import SnapshotStorage

_STEP_MAX_S = 2
Answer = tuple[int, SnapshotWritten | SnapshotFailed]


class SnapshotThread:
    """Outcomes are appended to `answers`, as (vertex, event); `ring` is called after each, by the thread.

    `failed` is called with what keeps it from giving an outcome.
    """

    def __init__(self, storage: SnapshotStorage, ring: Callable[[], None], failed: Failed) -> None:
        self.answers: deque[Answer] = deque()
        self._storage = storage
        self._ring = ring
        self._waiting: queue.SimpleQueue[tuple[int, TaskSnapshot]] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._writing = threading.Lock()
        serve("penstock-snapshots", self._write_next, failed)

    def write(self, vertex: int, snapshot: TaskSnapshot) -> None:
        """Write this snapshot after those that were requested before. Returns at once."""
        self._waiting.put((vertex, snapshot))

    def end(self) -> None:
        """Abandon what is not written yet. Afterwards nothing is written any more, unless the store hangs.

        The job master deletes what no checkpoint needs when all tasks are closed: a file that is written after that
        would stay forever.
        """
        self._ended.set()
        # The thread is in a step of a millisecond; a store that hangs must not keep the tasks from closing.
        if self._writing.acquire(timeout=_STEP_MAX_S):
            self._writing.release()

    def _write_next(self) -> bool:
        vertex, snapshot = self._waiting.get()
        with self._writing:
            answer = self._write(snapshot)
        # The answer first: the slot looks for it as soon as it is woken.
        self.answers.append((vertex, answer))
        self._ring()
        return True

    def _write(self, snapshot: TaskSnapshot) -> SnapshotWritten | SnapshotFailed:
        began_ns = time.monotonic_ns()
        try:
            storage = SavepointStorage(snapshot.savepoint) if snapshot.savepoint else self._storage
            writing = snapshot.write(storage)
            while not self._ended.is_set():
                next(writing)
                # Releases the interpreter's lock, if another thread waits for it.
                time.sleep(0)
            # Closed, it removes the file that it was writing.
            writing.close()
            return SnapshotFailed(snapshot.checkpoint_id, "the task is closed")
        except StopIteration as end:
            took_ms = (time.monotonic_ns() - began_ns) / 1e6
            return SnapshotWritten(snapshot.checkpoint_id, end.value, took_ms)
        except RAISED as error:
            # An outcome like any other: a disk that is full for a moment must not end all checkpoints of the slot.
            return SnapshotFailed(snapshot.checkpoint_id, _reason(error, snapshot.savepoint))


def _reason(error: BaseException, savepoint: str) -> str:
    """Why a snapshot was not written. `savepoint`: the directory, which somebody has named on another machine."""
    reason = f"{type(error).__name__}: {error}"
    if not isinstance(error, OSError):
        return reason
    worker = f"its worker, process {os.getpid()} on {socket.gethostname()}, can't write"
    if not savepoint:
        advice = advice_on(error, "")
        return f"{worker}: {reason}{'. ' * bool(advice)}{advice}"
    advice = advice_on(error, "Name a directory in which the driver and all executors may create files")
    return f"{worker} below {savepoint}: {reason}. {advice}"
