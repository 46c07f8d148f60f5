"""The results of a batched job on the driver: in a file, until it is known which runs of its tasks count.

Spark may run a task again, when some of what it sent has arrived. So results are kept by run, as bytes that nothing
here looks into, and are read when the job has succeeded. Memory holds where they are, not what they are.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from penstock.engine.rpc.keys import ControlAddress
from penstock.engine.rpc.messages import FromSlot, Heartbeat, ToJobMaster, ToTask
from penstock.engine.rpc.server import ControlServer
from penstock.engine.runtime.task.events import Cancel, Close, Finished, Result
from penstock.engine.runtime.task.opaque import Opaque

_log = logging.getLogger(__name__)


class Kept(NamedTuple):
    """Results of a subtask for a sink; the bytes from `offset` on are a pickled list."""

    sink: int
    subtask: int
    offset: int
    length: int


class BatchedResults:
    """Of one job. `on_failure` is called, by another thread, when they can't be kept; then nothing more is taken.

    `file`: where they are kept, a temporary file by default. `on_report` is given what slots say of themselves.
    """

    def __init__(
        self,
        server: ControlServer,
        on_failure: Callable[[BaseException], None],
        file: IO[bytes] | None = None,
        on_report: Callable[[FromSlot], None] = lambda message: None,
    ) -> None:
        self._server = server
        self._on_failure = on_failure
        self._on_report = on_report
        self._file = file or tempfile.TemporaryFile(prefix="penstock-results-")  # noqa: SIM115 - closed by `close`
        self._end = 0
        self._kept: dict[int, list[Kept]] = defaultdict(list)
        self._lost: set[int] = set()
        """Runs of which something has not arrived."""
        self._failed = False
        self._lock = threading.Lock()
        server.start(self._receive, lambda: None, on_failure)

    @property
    def address(self) -> ControlAddress:
        """Where slots connect."""
        return self._server.address

    def of(self, run: int) -> Iterator[tuple[int, int, Opaque]]:
        """What a run of a task sent, in order: sink, subtask, list of values."""
        for kept in self._kept.pop(run, ()):
            with self._lock:
                self._file.seek(kept.offset)
                data = self._file.read(kept.length)
            yield kept.sink, kept.subtask, Opaque.from_bytes(data)

    def close(self) -> None:
        """Forget all results, and free the space."""
        self._server.stop()
        with self._lock:
            self._failed = True
            self._file.close()

    def _receive(self, identity: bytes, message: ToJobMaster) -> None:
        if not isinstance(message, FromSlot):
            return
        report = message.report
        if isinstance(report, Result):
            self._keep(message.attempt, report)
            return
        self._on_report(message)
        if isinstance(report, Heartbeat):
            # Messages of one slot arrive in order; those that were under way when its connection broke never do.
            if report.sent is not None and report.sent != len(self._kept.get(message.attempt, ())):
                self._lost.add(message.attempt)
        elif isinstance(report, Finished):
            # A job that can't keep results has failed already: see `_keep`.
            is_lost = message.attempt in self._lost and not self._failed
            self._server.send(identity, ToTask(message.attempt, report.vertex, Cancel() if is_lost else Close()))

    def _keep(self, run: int, result: Result) -> None:
        data = result.values.to_bytes()
        with self._lock:
            if self._failed:
                return
            try:
                self._file.seek(self._end)
                self._file.write(data)
            except OSError as error:
                self._failed = True
                _log.exception("the results of a batched job can't be kept on the driver's disk")
                self._on_failure(error)
                return
            self._kept[run].append(Kept(result.sink_id, result.subtask, self._end, len(data)))
            self._end += len(data)
