"""Print, collect or commit the results of a job on the driver.

The path of a result: an operator's sink (engine/runtime/operators/sink.py) emits it, the task reports it (Result, or in
an Acknowledge), the JobMaster holds it back until its checkpoint completes (collected.py,
engine/checkpoint/commits.py), and a lane (lanes.py) delivers it to its ResultSink here.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from penstock.api.sink import Committer
from penstock.common.completable_future import WAKE_INTERVAL_S
from penstock.common.errors import JobError
from penstock.common.functions.user_calls import RAISED

RECORDS_IN_MEMORY = 200_000


class SpillingQueue:
    """A queue of chunks that never blocks `put`: beyond a limit, chunks go to local disk.

    Tasks must not wait for the driver: a program that iterates slowly over its results, or not at all, costs disk space
    but delays no task. One thread calls `put` and `close`, another one `get`.
    """

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
        """Mark the end of the chunks."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def get(self) -> list[Any] | None:
        """Wait for the next chunk and return it, or None when the queue is closed and empty."""
        with self._changed:
            while not (self._memory or self._spilled or self._closed):
                self._changed.wait(WAKE_INTERVAL_S)
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


_log = logging.getLogger(__name__)


class ResultSink:
    """Receive the results that subtasks of one sink send to the driver. Methods are called one at a time."""

    exactly_once = False
    """Whether results wait for their checkpoint, if the job takes checkpoints."""

    def accept(self, subtask: int, values: list[Any]) -> None:
        """Receive a chunk of one subtask, in order."""
        raise NotImplementedError

    def commit(self, subtask: int, values: list[Any]) -> None:
        """Commit values whose checkpoint is complete."""
        self.accept(subtask, values)

    def commit_again(self, subtask: int, values: list[Any]) -> None:
        """Commit values of the checkpoint from which the job was restored. They may be committed already."""
        self.commit(subtask, values)

    def abort(self, subtask: int, values: list[Any]) -> None:
        """Discard values whose checkpoint was aborted."""

    def restarted(self) -> None:
        """Discard values of the last attempt that are not committed: the next attempt sends them again."""

    def succeeded(self) -> None:
        """Finish, because the job has succeeded. No values follow."""

    def failed(self, error: BaseException) -> None:
        """Finish, because the job failed or was canceled. No values follow."""


class PrintResults(ResultSink):
    """Write each value on a line, like Flink: `identifier:subtask> value`, with subtasks counted from 1."""

    def __init__(self, identifier: str | None, parallel: bool, text_of: Callable[[Any], str] = str) -> None:
        self._identifier = identifier
        self._text_of = text_of
        self._parallel = parallel

    def accept(self, subtask: int, values: list[Any]) -> None:
        parts = [part for part in (self._identifier, str(subtask + 1) if self._parallel else None) if part]
        prefix = f"{':'.join(parts)}> " if parts else ""
        text = "".join(f"{prefix}{self._text_of(value)}\n" for value in values)
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError as error:
            raise JobError(f"print() can't write to the standard output of the job's process: {error}") from error


class CollectedResults(ResultSink):
    """Iterate over the values as they arrive. The iteration raises an error of the job."""

    exactly_once = True

    def __init__(self) -> None:
        self._arrived = SpillingQueue()
        self._error: BaseException | None = None

    def accept(self, subtask: int, values: list[Any]) -> None:
        self._arrived.put(values)

    def succeeded(self) -> None:
        self._arrived.close()

    def failed(self, error: BaseException) -> None:
        self._error = error
        self._arrived.close()

    def __iter__(self) -> Iterator[Any]:
        while (values := self._arrived.get()) is not None:
            yield from values
        if self._error is not None:
            raise self._error


class CommittedResults(ResultSink):
    """Commit the committables of a sink's writers when the job succeeds; abort them if it fails.

    `retry_pauses_s`: pauses before each further try to commit if the store is not reachable.
    """

    def __init__(self, committer: Committer, retry_pauses_s: Sequence[float] = (1, 3, 9)) -> None:
        self._committer = committer
        self._retry_pauses_s = retry_pauses_s
        self._committables: list[Any] = []

    def accept(self, subtask: int, values: list[Any]) -> None:
        self._committables.extend(values)

    def commit(self, subtask: int, values: list[Any]) -> None:
        self._committer.commit(values)

    def commit_again(self, subtask: int, values: list[Any]) -> None:
        self._committer.commit_again(values)

    def abort(self, subtask: int, values: list[Any]) -> None:
        self._committer.abort(values)

    def restarted(self) -> None:
        # A job without checkpoints repeats all its work: committing these too would write each row twice.
        committables, self._committables = self._committables, []
        self._committer.abort(committables)

    def succeeded(self) -> None:
        for pause_s in self._retry_pauses_s:
            try:
                self._committer.commit(self._committables)
                break
            except OSError as error:
                # Some committables may be published already: aborting now would leave a partial result.
                _log.warning("results could not be committed, retrying in %g s: %s", pause_s, error)
                time.sleep(pause_s)
        else:
            self._committer.commit(self._committables)
        # If another sink fails to commit now, `failed` must not remove this committed output.
        self._committables = []

    def failed(self, error: BaseException) -> None:
        # Ignore errors: readers do not see the rest, and the job's own error must not be hidden.
        with contextlib.suppress(*RAISED):
            self._committer.abort(self._committables)
