"""A batched job for its client: a Spark job in a thread."""

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
from penstock.hosts.spark.driver.held_slots import HELD_SLOTS
from penstock.hosts.spark.failures import from_spark
from penstock.hosts.spark.internals.python_daemons import renew_after
from penstock.hosts.spark.payload import Payload


class StoredResult(NamedTuple):
    """The place of a subtask's results for a sink: a pickled list at `offset` of the file."""

    sink: int
    subtask: int
    offset: int
    length: int


class BatchedResults:
    """Store the results of a batched job's tasks on the driver until Spark's job has ended.

    Spark may run a task again after some of its results have arrived. So results are stored by task attempt, in pickled
    form, and those of the counted attempts are read after the job has succeeded. Memory has only their places in the
    file.

    `on_failure`: called by another thread when results cannot be stored; later ones are dropped. `file`: a temporary
    file by default. `on_report`: receives the other reports of slots.
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
        self._stored: dict[int, list[StoredResult]] = defaultdict(list)
        """By task attempt."""
        self._incomplete: set[int] = set()
        """Task attempts with results that have not arrived."""
        self._failed = False
        self._lock = threading.Lock()
        server.start(self._receive, lambda: None, on_failure)

    @property
    def address(self) -> ControlAddress:
        """Return the address to which slots connect."""
        return self._server.address

    def read(self, attempt: int) -> Iterator[tuple[int, int, Opaque]]:
        """Yield the results of a task attempt, in order: sink, subtask, list of values. Can be called once."""
        for result in self._stored.pop(attempt, ()):
            with self._lock:
                self._file.seek(result.offset)
                data = self._file.read(result.length)
            yield result.sink, result.subtask, Opaque.from_bytes(data)

    def close(self) -> None:
        """Delete all results."""
        self._server.stop()
        with self._lock:
            self._failed = True
            self._file.close()

    def _receive(self, identity: bytes, message: ToJobMaster) -> None:
        if not isinstance(message, FromSlot):
            return
        report = message.report
        if isinstance(report, Result):
            self._store(message.attempt, report)
            return
        self._on_report(message)
        if isinstance(report, Heartbeat):
            # Messages of a slot arrive in order, but messages in flight are lost when its connection breaks.
            if report.sent is not None and report.sent != len(self._stored.get(message.attempt, ())):
                self._incomplete.add(message.attempt)
        elif isinstance(report, Finished):
            # If results cannot be stored, the job has failed already: see `_store`.
            is_incomplete = message.attempt in self._incomplete and not self._failed
            self._server.send(identity, ToTask(message.attempt, report.vertex, Cancel() if is_incomplete else Close()))

    def _store(self, attempt: int, result: Result) -> None:
        data = result.values.to_bytes()
        with self._lock:
            if self._failed:
                return
            try:
                self._file.seek(self._end)
                self._file.write(data)
            except OSError as error:
                self._failed = True
                _log.exception("cannot store the results of a batched job on the driver's disk")
                self._on_failure(error)
                return
            self._stored[attempt].append(StoredResult(result.sink_id, result.subtask, self._end, len(data)))
            self._end += len(data)


_log = logging.getLogger(__name__)
_HEARTBEAT_MS = 1000
_CANCEL_INTERVAL_S = 0.5
_decode_reports = msgpack_decoder(list[TaskReport]).decode


class SparkJob(Protocol):
    """The Spark job of a batched job: hosts/spark/driver/batched_job.py."""

    def run(self, payloads: list[Payload]) -> list[tuple[int, bytes]]:
        """Run the job to its end. Returns the counted attempt of each slot, and its reports. Raises Spark's errors."""

    def cancel(self) -> None:
        """Cancel the job if it has started."""


class BatchedRun:
    """Provide `status`, `metrics` and the calls of a JobClient for a batched job.

    `is_served`: whether REST or a client reads the progress of the job. `restarts`: decides about restarts of the Spark
    job, by default as configured.
    """

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
        """Called when all resources of the job are released, before `wait` returns."""
        self._recorder = BatchedRecorder(self._job_id, graph, now_ms())
        self._is_served = is_served
        self._recording = threading.Lock()
        self._error: BaseException | None = None
        self._results_error: BaseException | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._canceled = False
        self._restarts = restarts or BatchedRestarts(restart_strategy(configuration, random.random))
        self._cancel_requested = threading.Event()
        """Ends the wait for a restart."""
        self._is_outcome_decided = False
        """Whether the outcome of the job is decided, so that it can no longer be canceled."""

    @property
    def execution_graph(self) -> ExecutionGraph:
        """Return a recent state of the job. It has the progress of tasks only if `is_served`."""
        return self._recorder.published

    def _become(self, status: JobStatus, error: BaseException | None = None) -> None:
        with self._recording:
            self._recorder.status_changed(status, now_ms(), error)
        self.status = status

    def _on_report(self, message: FromSlot) -> None:
        if isinstance(message.report, Heartbeat) and message.report.log and self._log is not None:
            self._log.append_worker_lines(message.level, message.index, message.report.log)
        with self._recording:
            slot, has_finished = SlotId(message.level, message.index), isinstance(message.report, Finished)
            counts = self._recorder.slot_reported(slot, message.attempt, has_finished, now_ms())
        if counts and self._is_served and isinstance(message.report, Heartbeat):
            self.metrics.update(message.report.reports, message.attempt)

    def start(
        self, job: SparkJob, host: str, payloads: list[Payload], new_job: Callable[[], SparkJob] | None = None
    ) -> None:
        """Start the job. `host`: the address at which slots reach the driver.

        `new_job`: makes an equal Spark job for a restart, in a new session if the previous one is lost. May raise.
        """
        self._job, self._new_job = job, new_job or (lambda: job)
        self._become(JobStatus.RUNNING)
        self._host = host
        self._results = self._new_results()
        start_thread("penstock-batch", lambda: self._run(payloads), self._end_failed)

    def _new_results(self) -> BatchedResults:
        """Return a store for the results of one Spark job, since each Spark job numbers its task attempts from 0."""
        return BatchedResults(ControlServer(self._host), self._fail_for_results, on_report=self._on_report)

    def cancel(self) -> None:
        with self._lock:
            if self._is_outcome_decided or self._canceled:
                return
            self._canceled = True
            self._become(JobStatus.CANCELLING)
        self._cancel_requested.set()
        self._cancel_spark_job()

    def _cancel_spark_job(self) -> None:
        start_thread("penstock-batch-cancel", self._cancel_until_ended, lambda error: None)

    def _cancel_until_ended(self) -> None:
        # Repeat it: Spark ignores it until the job has started, which is some time after its submission.
        while not self._ended.is_set():
            with contextlib.suppress(Exception):  # Spark may have ended, and the job with it.
                self._job.cancel()
            self._ended.wait(_CANCEL_INTERVAL_S)

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
        answer.set_exception(JobError("a job in batch mode cannot be rescaled: it has no checkpoints"))
        return answer

    def read_state(self, query: StateQuery) -> Future[LiveState]:
        answer: Future[LiveState] = Future()
        answer.set_exception(StateNotFoundError("a job in batch mode has no queryable state"))
        return answer

    def sample_stacks(self, vertex: int, samples: int, delay_ms: int, depth: int) -> Future[list[StacksSampled]]:
        answer: Future[list[StacksSampled]] = Future()
        answer.set_exception(JobError("a job in batch mode has no flame graphs: it has no JobMaster to request them"))
        return answer

    def dump_threads(self, vertex: int, subtask: int, depth: int) -> Future[list[StacksSampled]]:
        answer: Future[list[StacksSampled]] = Future()
        answer.set_exception(JobError("a job in batch mode has no thread dumps: it has no JobMaster to request them"))
        return answer

    def wait(self) -> BaseException | None:
        self._ended.wait()
        return self._error

    def _run(self, payloads: list[Payload]) -> None:
        try:
            for attempt, reports in self._outcomes(payloads):
                self._raise_if_stopped()
                self.metrics.update(_decode_reports(reports))
                for sink, subtask, values in self._results.read(attempt):
                    if sink in self._result_sinks:
                        self._result_sinks[sink].accept(subtask, values.value)
            with self._lock:
                self._raise_if_stopped()
                self._is_outcome_decided = True
            for result_sink in self._result_sinks.values():
                result_sink.succeeded()
            self._become(JobStatus.FINISHED)
        except RAISED as error:
            self._fail(as_exception(error))
        HELD_SLOTS.release(self._job_id)
        self._results.close()
        self._close_log()
        self.on_end()
        self._ended.set()

    def _outcomes(self, payloads: list[Payload]) -> list[tuple[int, bytes]]:
        """Run the Spark job, and again after a failure if the restart strategy allows it."""
        while True:
            self._raise_if_stopped()
            added = {"control": self._results.address, "heartbeat_ms": _HEARTBEAT_MS, "reports": self._is_served}
            try:
                return self._job.run([msgspec.structs.replace(payload, **added) for payload in payloads])
            except RAISED as error:
                self._wait_for_restart(error)
            self._raise_if_stopped()
            self._results.close()
            self._results = self._new_results()
            self._restart()

    def _restart(self) -> None:
        while True:
            try:
                self._job = self._new_job()
                break
            except RAISED as error:
                self._wait_for_restart(error)
            self._raise_if_stopped()
        with self._lock:
            if not self._canceled:
                self._become(JobStatus.RUNNING)

    def _wait_for_restart(self, error: BaseException) -> None:
        """Wait for the delay of the restart strategy. Raises the error if there is no restart."""
        failure = from_spark(error, self._show_stack)
        is_stopped = self._canceled or self._results_error is not None
        delay_ms = None if is_stopped else self._restarts.delay_ms(failure, now_ms())
        if delay_ms is None:
            raise error
        self.restarts += 1
        with self._recording:
            self._recorder.restarted(now_ms(), failure)
        self.status = JobStatus.RESTARTING
        text = f"job '{self._graph.name}' failed and restarts in {delay_ms} ms (restart {self.restarts}): {failure}"
        _log.warning("%s", text)
        self._cancel_requested.wait(delay_ms / 1000)

    def _close_log(self) -> None:
        if self._log is not None:
            self._log.events.info("the job has ended: %s", self.status.name)
            self._log.with_log_location(self._error)
            self._log.close()

    def _end_failed(self, error: BaseException) -> None:
        """Complete the job after its end has failed: `wait` returns the outcome if it is known, otherwise the error."""
        if not self.status.is_terminal_state():
            self._error = self._error or as_exception(error)
            self._become(JobStatus.FAILED, self._error)
        self._ended.set()

    def _raise_if_stopped(self) -> None:
        """Raise if the job was canceled or its results are lost, whether or not the Spark job has succeeded."""
        if self._canceled:
            raise self._cancellation()
        if self._results_error is not None:
            raise self._results_error

    def _cancellation(self) -> JobCancelledError:
        return JobCancelledError(f"the job '{self._graph.name}' was canceled")

    def _fail_for_results(self, error: BaseException) -> None:
        self._results_error = error
        self._cancel_spark_job()

    def _fail(self, error: Exception) -> None:
        with self._lock:
            self._is_outcome_decided = True
        if self._canceled:
            self._error = self._cancellation()
            self._become(JobStatus.CANCELED)
        elif self._results_error is not None:
            self._error = JobError(f"cannot store the job's results on the driver's disk: {self._results_error}")
            self._become(JobStatus.FAILED, self._error)
        else:
            renew_after(error)
            self._error = from_spark(error, self._show_stack)
            self._become(JobStatus.FAILED, self._error)
        for result_sink in self._result_sinks.values():
            result_sink.failed(self._error)
