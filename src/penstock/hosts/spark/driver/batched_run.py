"""A batched job as its client sees it: one Spark job in a thread."""

from __future__ import annotations

import contextlib
import logging
import random
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import IO, Any, NamedTuple, Protocol

import msgspec

from penstock.common.configuration import Configuration, options
from penstock.common.errors import JobCancelledError, JobError, StateNotFoundError
from penstock.common.functions.user_calls import RAISED, as_exception
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.common.job_threads import start_thread
from penstock.common.time.wall_clock import now_ms
from penstock.common.values.decoding import msgpack_decoder
from penstock.engine.jobmaster.batched_recorder import BatchedRecorder
from penstock.engine.jobmaster.execution_graph import ExecutionGraph
from penstock.engine.jobmaster.metrics import JobMetrics
from penstock.engine.jobmaster.restarts import BatchedRestarts, restart_strategy
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.jobmaster.state_query import LiveState, StateQuery
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.keys import ControlAddress
from penstock.engine.rpc.messages import FromSlot, Heartbeat, TaskReport, ToJobMaster, ToTask
from penstock.engine.rpc.server import ControlServer
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.task.events import Cancel, Close, Finished, Opaque, Result, StacksSampled
from penstock.hosts.logs.job_log import JobLog
from penstock.hosts.spark.driver.held_slots import HELD
from penstock.hosts.spark.failures import from_spark
from penstock.hosts.spark.internals.python_daemons import renew_after
from penstock.hosts.spark.payload import Payload

# The results of a batched job on the driver: in a file, until it is known which runs of its tasks count.
#
# Spark may run a task again, when some of what it sent has arrived. So results are kept by run, as bytes that nothing
# here looks into, and are read when the job has succeeded. Memory holds where they are, not what they are.


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


_log = logging.getLogger(__name__)
_HEARTBEAT_MS = 1000
_CANCEL_AGAIN_S = 0.5
_decode_reports = msgpack_decoder(list[TaskReport]).decode


class SparkJob(Protocol):
    """The Spark job of a batched job: hosts/spark/driver/batched_job.py."""

    def run(self, payloads: list[Payload]) -> list[tuple[int, bytes]]:
        """Run it to its end. Returns the counted run of each slot, and its reports. Raises what Spark raises."""

    def cancel(self) -> None:
        """Cancel it if it has begun."""


class BatchedRun:
    """`status`, `metrics` and the calls of a JobClient. `restarts`: of its Spark job, by default as configured."""

    def __init__(
        self,
        graph: JobGraph,
        result_sinks: dict[int, ResultSink],
        configuration: Configuration,
        job_id: JobID,
        log: JobLog | None = None,
        is_served: bool = False,
        restarts: BatchedRestarts | None = None,
    ) -> None:
        self._graph = graph
        self._result_sinks = result_sinks
        self._show_stack = configuration.get(options.SHOW_SPARK_STACK)
        self._job_id = str(job_id)
        self._log = log
        self.metrics = JobMetrics(graph)
        self.checkpoints: list[Any] = []
        self.restarts = 0
        self.status = JobStatus.CREATED
        self.on_end: Callable[[], object] = lambda: None
        """Called when everything of the job is released, before it is over."""
        self._recorder = BatchedRecorder(self._job_id, graph, now_ms())
        self._is_served = is_served
        self._recording = threading.Lock()
        self._error: BaseException | None = None
        self._results_error: BaseException | None = None
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._cancelled = False
        self._restarts = restarts or BatchedRestarts(restart_strategy(configuration, random.random))
        self._again = threading.Event()
        """Set when the job is cancelled, which ends the wait for its restart."""
        self._ends = False
        """Whether it is decided how the job ends: it can't be cancelled any more."""

    @property
    def execution_graph(self) -> ExecutionGraph:
        """The job as it was a moment ago. Of its tasks only a job that is served knows more than the end."""
        return self._recorder.published

    def _become(self, status: JobStatus, error: BaseException | None = None) -> None:
        with self._recording:
            self._recorder.job_became(status, now_ms(), error)
        self.status = status

    def _on_report(self, message: FromSlot) -> None:
        if isinstance(message.report, Heartbeat) and message.report.log and self._log is not None:
            self._log.of_worker(message.level, message.index, message.report.log)
        with self._recording:
            slot, has_finished = SlotId(message.level, message.index), isinstance(message.report, Finished)
            counts = self._recorder.slot_reported(slot, message.attempt, has_finished, now_ms())
        if counts and self._is_served and isinstance(message.report, Heartbeat):
            self.metrics.update(message.report.reports, message.attempt)

    def start(
        self, job: SparkJob, host: str, payloads: list[Payload], again: Callable[[], SparkJob] | None = None
    ) -> None:
        """Start the job. `host`: the address at which slots reach the driver.

        `again`: makes another Spark job like it, in a new session if the one before is lost. It may raise.
        """
        self._job, self._job_again = job, again or (lambda: job)
        self._become(JobStatus.RUNNING)
        self._host = host
        self._results = self._new_results()
        start_thread("penstock-batch", lambda: self._run(payloads), self._end_failed)

    def _new_results(self) -> BatchedResults:
        """Of one Spark job: another one numbers its runs from zero, too."""
        return BatchedResults(ControlServer(self._host), self._fail_for_results, on_report=self._on_report)

    def cancel(self) -> None:
        with self._lock:
            if self._ends or self._cancelled:
                return
            self._cancelled = True
            self._become(JobStatus.CANCELLING)
        self._again.set()
        self._cancel_spark_job()

    def _cancel_spark_job(self) -> None:
        start_thread("penstock-batch-cancel", self._cancel_until_over, lambda error: None)

    def _cancel_until_over(self) -> None:
        # Again and again: Spark ignores this until the job has begun, which it does some time after it was submitted.
        while not self._over.is_set():
            with contextlib.suppress(Exception):  # Spark may have ended, and the job with it.
                self._job.cancel()
            self._over.wait(_CANCEL_AGAIN_S)

    def savepoint(self, directory: str | None, stop: bool = False, drain: bool = False) -> Future[str]:
        answer: Future[str] = Future()
        text = "a job in batch mode has no checkpoints and no savepoints: Spark runs lost tasks again"
        answer.set_exception(JobError(text))
        return answer

    def checkpoint(self, full: bool = False) -> Future[str]:
        return self.savepoint(None)

    def stop(self, directory: str | None, drain: bool) -> Future[str]:
        return self.savepoint(directory)

    def scale(self, parallelism: int | None, operators: Mapping[str, int]) -> Future[str]:
        return self.rescale({})

    def rescale(self, parallelism: Mapping[int, int]) -> Future[str]:
        answer: Future[str] = Future()
        answer.set_exception(JobError("a job in batch mode has no checkpoint from which it could go on"))
        return answer

    def read_state(self, query: StateQuery) -> Future[LiveState]:
        answer: Future[LiveState] = Future()
        answer.set_exception(StateNotFoundError("a job in batch mode keeps no state that can be asked for"))
        return answer

    def sample_stacks(self, vertex: int, samples: int, delay_ms: int, depth: int) -> Future[list[StacksSampled]]:
        answer: Future[list[StacksSampled]] = Future()
        answer.set_exception(JobError("a job in batch mode has no flame graphs: no job master asks its tasks"))
        return answer

    def dump_threads(self, vertex: int, subtask: int, depth: int) -> Future[list[StacksSampled]]:
        answer: Future[list[StacksSampled]] = Future()
        answer.set_exception(JobError("workers of a job in batch mode can't be asked: it has no job master"))
        return answer

    def wait(self) -> BaseException | None:
        self._over.wait()
        return self._error

    def _run(self, payloads: list[Payload]) -> None:
        try:
            for run, reports in self._outcomes(payloads):
                self._go_on()
                self.metrics.update(_decode_reports(reports))
                for sink, subtask, values in self._results.of(run):
                    if sink in self._result_sinks:
                        self._result_sinks[sink].take(subtask, values.value)
            with self._lock:
                self._go_on()
                self._ends = True
            for result_sink in self._result_sinks.values():
                result_sink.succeeded()
            self._become(JobStatus.FINISHED)
        except RAISED as error:
            self._fail(as_exception(error))
        HELD.release(self._job_id)
        self._results.close()
        self._close_log()
        self.on_end()
        self._over.set()

    def _outcomes(self, payloads: list[Payload]) -> list[tuple[int, bytes]]:
        """Run the Spark job, as often as it is lost and the restart strategy allows."""
        while True:
            self._go_on()
            added = {"control": self._results.address, "heartbeat_ms": _HEARTBEAT_MS, "reports": self._is_served}
            try:
                return self._job.run([msgspec.structs.replace(payload, **added) for payload in payloads])
            except RAISED as error:
                self._wait_for_restart(error)
            self._go_on()
            self._results.close()
            self._results = self._new_results()
            self._job_begins_again()

    def _job_begins_again(self) -> None:
        while True:
            try:
                self._job = self._job_again()
                break
            except RAISED as error:
                self._wait_for_restart(error)
            self._go_on()
        with self._lock:
            if not self._cancelled:
                self._become(JobStatus.RUNNING)

    def _wait_for_restart(self, error: BaseException) -> None:
        """Wait until the Spark job is begun again. Raises the error if it is not to be."""
        failure = from_spark(error, self._show_stack)
        is_over = self._cancelled or self._results_error is not None
        delay_ms = None if is_over else self._restarts.delay_ms(failure, now_ms())
        if delay_ms is None:
            raise error
        self.restarts += 1
        with self._recording:
            self._recorder.begins_again(now_ms(), failure)
        self.status = JobStatus.RESTARTING
        text = f"job '{self._graph.name}' failed and restarts in {delay_ms} ms (restart {self.restarts}): {failure}"
        _log.warning("%s", text)
        self._again.wait(delay_ms / 1000)

    def _close_log(self) -> None:
        if self._log is not None:
            self._log.events.info("the job has ended: %s", self.status.name)
            self._log.with_log_location(self._error)
            self._log.close()

    def _end_failed(self, error: BaseException) -> None:
        """The end itself has failed. Those who wait for the job get its outcome, if that is known."""
        if not self.status.is_terminal_state():
            self._error = self._error or as_exception(error)
            self._become(JobStatus.FAILED, self._error)
        self._over.set()

    def _go_on(self) -> None:
        """Raises if the job is not to go on, whatever Spark has made of its job."""
        if self._cancelled:
            raise self._cancellation()
        if self._results_error is not None:
            raise self._results_error

    def _cancellation(self) -> JobCancelledError:
        return JobCancelledError(f"the job '{self._graph.name}' was cancelled")

    def _fail_for_results(self, error: BaseException) -> None:
        self._results_error = error
        self._cancel_spark_job()

    def _fail(self, error: Exception) -> None:
        with self._lock:
            self._ends = True
        if self._cancelled:
            self._error = self._cancellation()
            self._become(JobStatus.CANCELED)
        elif self._results_error is not None:
            self._error = JobError(f"the results of the job can't be kept on the driver's disk: {self._results_error}")
            self._become(JobStatus.FAILED, self._error)
        else:
            renew_after(error)
            self._error = from_spark(error, self._show_stack)
            self._become(JobStatus.FAILED, self._error)
        for result_sink in self._result_sinks.values():
            result_sink.failed(self._error)
