"""Write snapshots while the slot works: one thread, one snapshot after the other, in the order of requests.

A thread that pickles holds the interpreter's lock. So it writes a snapshot in steps of at most a millisecond, and
releases the lock after each step, so that the slot's thread can run. Why it is a thread, not a process:
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
from penstock.common.job_threads import OnError, start_loop
from penstock.engine.checkpoint.storage import SavepointStorage
from penstock.engine.runtime.task.events import SnapshotFailed, SnapshotWritten
from penstock.engine.runtime.task.snapshot import TaskSnapshot
from penstock.engine.state.snapshot.storage import SnapshotStorage

_STEP_MAX_S = 2
Answer = tuple[int, SnapshotWritten | SnapshotFailed]


class SnapshotThread:
    """Append the outcome of each snapshot to `answers`, as (vertex, event), and call `ring` on this thread.

    `failed` is called with an error for which there is no outcome.
    """

    def __init__(self, storage: SnapshotStorage, ring: Callable[[], None], failed: OnError) -> None:
        self.answers: deque[Answer] = deque()
        self._storage = storage
        self._ring = ring
        self._waiting: queue.SimpleQueue[tuple[int, TaskSnapshot]] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._writing = threading.Lock()
        start_loop("penstock-snapshots", self._write_next, failed)

    def write(self, vertex: int, snapshot: TaskSnapshot) -> None:
        """Write this snapshot after the earlier ones. Returns immediately."""
        self._waiting.put((vertex, snapshot))

    def end(self) -> None:
        """Abandon unwritten snapshots. After this the thread writes nothing, unless the store hangs.

        When all tasks are closed, the JobMaster deletes files that no checkpoint needs. A file that is written later
        would stay forever.
        """
        self._ended.set()
        # A step takes a millisecond. The timeout is for a store that hangs: tasks must still close.
        if self._writing.acquire(timeout=_STEP_MAX_S):
            self._writing.release()

    def _write_next(self) -> bool:
        vertex, snapshot = self._waiting.get()
        with self._writing:
            answer = self._write(snapshot)
        # Append before the wake-up: the slot reads the answers immediately after it.
        self.answers.append((vertex, answer))
        self._ring()
        return True

    def _write(self, snapshot: TaskSnapshot) -> SnapshotWritten | SnapshotFailed:
        started_ns = time.monotonic_ns()
        try:
            storage = SavepointStorage(snapshot.savepoint) if snapshot.savepoint else self._storage
            writing = snapshot.write(storage)
            while not self._ended.is_set():
                next(writing)
                # Releases the interpreter's lock, if another thread waits for it.
                time.sleep(0)
            # On close, it removes the unfinished file.
            writing.close()
            return SnapshotFailed(snapshot.checkpoint_id, "the task is closed")
        except StopIteration as end:
            elapsed_ms = (time.monotonic_ns() - started_ns) / 1e6
            return SnapshotWritten(snapshot.checkpoint_id, end.value, elapsed_ms)
        except RAISED as error:
            # Report it as an outcome: a disk that is full for a moment must not end all later checkpoints.
            return SnapshotFailed(snapshot.checkpoint_id, _reason(error, snapshot.savepoint))


def _reason(error: BaseException, savepoint: str) -> str:
    """Return why a snapshot was not written. `savepoint`: its directory, named by a user on another machine, or ""."""
    reason = f"{type(error).__name__}: {error}"
    if not isinstance(error, OSError):
        return reason
    worker = f"its worker, process {os.getpid()} on {socket.gethostname()}, cannot write"
    if not savepoint:
        advice = advice_on(error, "")
        return f"{worker}: {reason}{'. ' * bool(advice)}{advice}"
    advice = advice_on(error, "Name a directory in which the driver and all executors may create files")
    return f"{worker} below {savepoint}: {reason}. {advice}"
