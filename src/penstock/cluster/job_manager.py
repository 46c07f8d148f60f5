"""The JobManager of a pipelined job: deploys it, listens to its slots, ends it.

All decisions are those of `Execution`; this class connects it with the control server's thread, Spark and the clock.
"""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from penstock.checkpoint.coordinator import CheckpointReport
from penstock.checkpoint.restore import Restored
from penstock.cluster.commands import obey
from penstock.cluster.job_checkpoints import JobCheckpoints
from penstock.cluster.results_thread import ResultsThread
from penstock.cluster.savepoints import Savepoints
from penstock.common import options
from penstock.common.configuration import Configuration
from penstock.common.errors import (
    ConfigurationError,
    DamagedCheckpointError,
    JobCancelledError,
    JobError,
    NotEnoughSlotsError,
    ProgramError,
    TaskLostError,
)
from penstock.common.job_status import JobStatus
from penstock.jobmaster.execution import Execution, SlotId
from penstock.jobmaster.metrics import JobMetrics
from penstock.jobmaster.outlines import vertex_of_sinks
from penstock.jobmaster.restarts import restart_strategy
from penstock.jobmaster.results.takers import ResultTaker
from penstock.jobmaster.results.uncommitted import Uncommitted
from penstock.plan.job_graph import JobGraph
from penstock.rpc.messages import (
    CancelTasks,
    CheckpointAcknowledged,
    CheckpointCompleted,
    CheckpointDeclined,
    CheckpointGivenUp,
    CheckpointTriggered,
    CloseTasks,
    Command,
    FromJobManager,
    FromSlot,
    Heartbeat,
    Register,
    Results,
    SlotFailed,
    SourceDrained,
    SplitRequested,
    SplitsAssigned,
    SplitsExhausted,
    TaskDataEnded,
    TaskFinished,
)
from penstock.rpc.server import ControlServer
from penstock.runtime.task.events import (
    AbortCheckpoint,
    AssignSplits,
    Cancel,
    CheckpointComplete,
    Close,
    Drain,
    Event,
    NoMoreSplits,
    TriggerCheckpoint,
)
from penstock.spark.driver.pipelined_query import PipelinedQuery
from penstock.spark.failures import from_spark, revive

REGISTRATION_TIMEOUT_MS = 120_000
_FAILURE_GRACE_MS = 3_000
_QUERY_CHECK_MS = 500
_SLOTS_RETRY_MS = 1_000
_NEVER_AGAIN = (ProgramError, ConfigurationError)
"""What is wrong with the program or its settings will be wrong the next time."""

_log = logging.getLogger(__name__)


Deploy = Callable[[int, Restored], PipelinedQuery]
"""Starts the query of an attempt, with what its tasks are given back."""


class JobManager:
    """One job, through all its attempts."""

    def __init__(
        self,
        graph: JobGraph,
        takers: dict[int, ResultTaker],
        configuration: Configuration,
        host: str,
        checkpoints: JobCheckpoints,
    ) -> None:
        self._graph = graph
        self._takers = takers
        self._configuration = configuration
        self._checkpoints = checkpoints
        self._restarts = restart_strategy(configuration)
        self._restart_at_ms: int | None = None
        self._slots_missed_ms: int | None = None
        self._attempt = -1
        self._cancelled = False
        self._vertex_of_sink = vertex_of_sinks(graph)
        self._slots = slots_of(graph)
        self.metrics = JobMetrics(graph)
        self.server = ControlServer(host)
        self._query: PipelinedQuery | None = None
        self._query_checked_ms = 0
        self._results = ResultsThread(takers, lambda error: self.server.call_soon(partial(self._fail, error)))
        self._savepoints = Savepoints(checkpoints, lambda: self.execution, self._fail)
        self._begin_attempt()
        self.on_end: Callable[[], None] = lambda: None
        self.over = threading.Event()
        self.error: BaseException | None = None
        self.killed_slots: list[SlotId] = []
        self._ended = False
        self._ended_before: Execution | None = None
        checkpoints.commit = self._commit
        checkpoints.abort = self._results.abort

    def _begin_attempt(self) -> None:
        """All that belongs to one attempt, anew."""
        self._attempt += 1
        self._ran = False
        self._results.begin_attempt()
        self.execution = Execution(
            self._slots,
            sources_of(self._graph),
            self._deliver,
            _now_ms,
            self._checkpoints.enumerator_states(),
            self._savepoints.last_checkpoint,
        )
        self._identities: dict[SlotId, bytes] = {}
        self._undelivered: dict[SlotId, list[FromJobManager]] = {}
        self._heard_ms: dict[SlotId, int] = {}
        self._uncommitted = Uncommitted()
        self._began_ms = _now_ms()
        self._deadline_ms: int | None = None
        self.execution.start()

    def run(self, deploy: Deploy) -> None:
        """Deploy, then serve until the job is over. Returns at once; `over` is set at the end."""
        self._deploy = deploy
        self._results.start(self._tell_takers)
        self.server.start(
            lambda identity, message: self._guarded(lambda: self._on_message(identity, message)),
            lambda: self._guarded(self._on_tick),
        )
        self._deploy_attempt()

    def _deploy_attempt(self) -> None:
        execution = self.execution
        try:
            query = self._deploy(self._attempt, self._checkpoints.restored())
            if self._ended or execution.over or self.execution is not execution:
                # It failed while it was being started, and nobody waits for it any more.
                query.stop()
            else:
                self._query = query
        except Exception as error:
            failure = from_spark(error, self._configuration.get(options.SHOW_SPARK_STACK))

            def fail() -> None:
                if self.execution is execution:
                    self._fail(failure)
                    execution.give_up()

            self.server.call_soon(fail)

    @property
    def status(self) -> JobStatus:
        """Where the job is."""
        if self._restart_at_ms is not None:
            return JobStatus.RESTARTING
        status = self.execution.status
        return status if not self.execution.over or self.over.is_set() else JobStatus.RUNNING

    def checkpoint_reports(self) -> list[CheckpointReport]:
        """The newest completed checkpoints, oldest first."""
        return list(self._checkpoints.coordinator.history)

    def savepoint(self, directory: str | None) -> Future[str]:
        """Take a savepoint below a directory, or below the configured one. The future is given its path."""
        answer: Future[str] = Future()
        self._ask(answer, lambda: self._savepoints.take(directory, answer))
        return answer

    def stop(self, directory: str | None, drain: bool) -> Future[str]:
        """Stop the job with a savepoint; `drain`: event time goes to its end first."""
        answer: Future[str] = Future()
        self._ask(answer, lambda: self._savepoints.stop(directory, drain, answer))
        return answer

    def _ask(self, answer: Future[str], call: Callable[[], None]) -> None:
        if self._ended:
            answer.set_exception(JobError("the job has ended"))
        else:
            self.server.call_soon(call)

    def cancel(self) -> None:
        """Ask all tasks to stop; those that do not in time are killed with their workers."""
        self.server.call_soon(self._cancel)

    def _cancel(self) -> None:
        timeout_ms = self._configuration.get(options.TASK_CANCELLATION_TIMEOUT)
        self._deadline_ms = _now_ms() + timeout_ms if timeout_ms else None
        self._cancelled = True
        self.execution.cancel()
        if self._restart_at_ms is not None:
            # Between two attempts nothing runs that could be cancelled.
            self._restart_at_ms = None
            self.execution.status = JobStatus.CANCELED

    # The server's thread.

    def _on_message(self, identity: bytes, message: FromSlot) -> None:
        if isinstance(message, Command):
            # Sent at once: in this tick the server may stop.
            obey(self, message, lambda answer: self.server.send(identity, answer))
            return
        if message.attempt != self._attempt:
            return
        slot = (message.level, message.slot)
        self._heard_ms[slot] = _now_ms()
        if slot not in self._identities or isinstance(message, Register):
            self._identities[slot] = identity
            for waiting in self._undelivered.pop(slot, []):
                self.server.send(identity, waiting)
        _ON_MESSAGE[type(message)](self, slot, message)

    def _on_register(self, slot: SlotId, message: Register) -> None:
        self.execution.registered(slot)
        if self.execution.status is JobStatus.FAILING:
            self._give_grace()
        if self.execution.status is JobStatus.RUNNING:
            self._slots_missed_ms = None
            self._ran = True
            self._checkpoints.attempt_began(self._attempt, self._deliver, self.execution.enumerator_states)

    def _on_heartbeat(self, slot: SlotId, message: Heartbeat) -> None:
        self.metrics.update(message.reports)

    def _on_split_requested(self, slot: SlotId, message: SplitRequested) -> None:
        self._guarded(lambda: self.execution.split_requested(message.vertex, message.slot))

    def _on_results(self, slot: SlotId, message: Results) -> None:
        taker = self._takers.get(message.sink_id)
        if taker is None:
            return
        if self._checkpoints.periodic and taker.exactly_once:
            task = (self._vertex_of_sink[message.sink_id], message.slot)
            self._uncommitted.add(task, message.sink_id, message.values, message.after_checkpoint)
        else:
            self._results.take(message.sink_id, message.slot, lambda: pickle.loads(message.values))

    def _on_acknowledged(self, slot: SlotId, message: CheckpointAcknowledged) -> None:
        coordinator, task = self._checkpoints.coordinator, (message.vertex, message.slot)
        before = coordinator.committed_id
        commits = pickle.loads(message.commits) if message.commits else []
        try:
            coordinator.acknowledged(task, message.checkpoint_id, message.state, commits)
        finally:
            # Also if what follows a complete checkpoint has failed: the job will go on from it.
            if coordinator.committed_id != before:
                self._checkpoints.committed()
                for sink, subtask, values in self._uncommitted.complete(message.checkpoint_id):
                    self._results.commit(sink, subtask, partial(pickle.loads, values), lambda: None)
        self._check_coordinator()

    def _on_declined(self, slot: SlotId, message: CheckpointDeclined) -> None:
        task = (message.vertex, message.slot)
        self._checkpoints.coordinator.declined(task, message.checkpoint_id, message.reason)
        self._check_coordinator()

    def _check_coordinator(self) -> None:
        error, self._checkpoints.coordinator.error = self._checkpoints.coordinator.error, None
        if error is not None:
            self._fail(error)

    def _commit(self, sink: int, subtask: int, values: list[Any], done: Callable[[], None], again: bool) -> None:
        self._results.commit(sink, subtask, lambda: values, lambda: self.server.call_soon(done), again)

    def _on_data_ended(self, slot: SlotId, message: TaskDataEnded) -> None:
        self.execution.data_ended(message.vertex, message.slot)

    def _on_finished(self, slot: SlotId, message: TaskFinished) -> None:
        self.execution.finished(message.vertex, message.slot)

    def _on_failed(self, slot: SlotId, message: SlotFailed) -> None:
        self._fail(revive(message.kind, message.message), slot)

    def _fail(self, error: BaseException, slot: SlotId | None = None) -> None:
        self._give_grace()
        self.execution.failed(slot, error)

    def _give_grace(self) -> None:
        """Tasks of a failed job have a moment to close; whoever does not answer by then is killed."""
        if self._deadline_ms is None:
            self._deadline_ms = _now_ms() + _FAILURE_GRACE_MS

    def _guarded(self, do: Callable[[], None]) -> None:
        """What fails here (a user's enumerator, Spark's JVM) is the job's failure, and must not end the thread."""
        try:
            do()
        except Exception as error:
            self._fail(error)

    def _on_tick(self) -> None:
        now_ms = _now_ms()
        if self._restart_at_ms is not None:
            if now_ms >= self._restart_at_ms:
                self._restart()
            return
        self._guarded(self.execution.tick)
        if self.execution.status is JobStatus.RUNNING:
            # Also while the job waits for its last checkpoint: that may take too long like any other.
            begins = self.execution.takes_checkpoints
            self._guarded(lambda: self._checkpoints.coordinator.tick(may_begin=begins))
            self._check_coordinator()
        self._check_slots(now_ms)
        if now_ms - self._query_checked_ms >= _QUERY_CHECK_MS:
            self._query_checked_ms = now_ms
            self._check_query()
        if self._deadline_ms is not None and now_ms >= self._deadline_ms and not self.execution.over:
            self.killed_slots = self.execution.unfinished
            self.execution.give_up()
        if self.execution.over:
            self._end_attempt(now_ms)

    def _end_attempt(self, now_ms: int) -> None:
        """Its tasks are gone: the job ends, or starts again after a while."""
        if self._query is not None:
            self._query.stop()
        self.execution.close()
        self._savepoints.attempt_ended()
        error = self.execution.error
        damaged = (
            isinstance(error, DamagedCheckpointError) and not self._ran and self._ended_before is not self.execution
        )
        self._ended_before = self.execution
        if damaged and self._checkpoints.coordinator.fall_back():
            _log.warning(
                "job '%s' goes back to the checkpoint before, so what has been committed since comes again: %s",
                self._graph.name,
                error,
            )
        self._checkpoints.coordinator.attempt_ended()
        may_restart = self.execution.status is JobStatus.FAILED and not isinstance(error, _NEVER_AGAIN)
        if may_restart and self._checkpoints.coordinator.stopped:
            # What the savepoint holds with which it was to stop is committed: it would be done a second time.
            _log.warning("job '%s' has stopped with a savepoint, but its end failed: %s", self._graph.name, error)
            self.execution.status, self.execution.error = JobStatus.FINISHED, None
            may_restart = False
        delay_ms = self._restart_delay_ms(now_ms, error) if may_restart and not self._cancelled else None
        if delay_ms is None:
            self._end()
            return
        _log.warning("job '%s' failed and starts again in %d ms: %s", self._graph.name, delay_ms, error)
        self._restart_at_ms = now_ms + delay_ms

    def _restart_delay_ms(self, now_ms: int, error: BaseException | None) -> int | None:
        if isinstance(error, NotEnoughSlotsError) and self._attempt > 0:
            # No failure of the job's: an executor was lost, and is not there again yet.
            self._slots_missed_ms = self._slots_missed_ms or now_ms
            if now_ms - self._slots_missed_ms < self._configuration.get(options.SLOT_REQUEST_TIMEOUT):
                return _SLOTS_RETRY_MS
        return self._restarts.delay_ms(now_ms)

    def _restart(self) -> None:
        self._restart_at_ms = None
        self._query = None
        try:
            self._begin_attempt()
        except Exception as error:
            # The execution before is over, and may have failed for another reason.
            self.execution.status, self.execution.error = JobStatus.FAILED, error
            return
        threading.Thread(target=self._deploy_attempt, name="penstock-deploy", daemon=True).start()

    def _check_slots(self, now_ms: int) -> None:
        if self.execution.status is JobStatus.CREATED and now_ms - self._began_ms > REGISTRATION_TIMEOUT_MS:
            missing = ", ".join(f"level {level} slot {slot}" for level, slot in self.execution.missing)
            self._fail(
                TaskLostError(
                    f"after {REGISTRATION_TIMEOUT_MS // 1000} s these slots have not registered: {missing}. Does Spark "
                    f"have {sum(self._graph.widths)} free slots, and do executors reach {self.server.address.endpoint}?"
                )
            )
        timeout_ms = self._configuration.get(options.HEARTBEAT_TIMEOUT)
        if self.execution.status is JobStatus.RUNNING:
            for slot, heard_ms in self._heard_ms.items():
                if now_ms - heard_ms > timeout_ms:
                    self._fail(
                        TaskLostError(f"no heartbeat from level {slot[0]} slot {slot[1]} for {timeout_ms} ms"), slot
                    )
                    return

    def _check_query(self) -> None:
        if self._query is None or self.execution.over:
            return
        try:
            if self._query.is_active:
                return
            error = self._query.failure()
        except Exception:
            error = TaskLostError("Spark's JVM went away")
        if error is not None:
            self._fail(from_spark(error, self._configuration.get(options.SHOW_SPARK_STACK)))
        else:
            self._fail(JobError("Spark's query was stopped from outside"))
        self.execution.give_up()

    def _end(self) -> None:
        """All is said: stop the query, the server and the enumerators, in this order, then wake who waits."""
        self._ended = True
        self.on_end()
        self.server.stop()
        self._results.end()

    # The results' thread.

    def _tell_takers(self) -> None:
        try:
            self._tell_how_it_ended()
        finally:
            # Not before: the checkpoints name what had still to be committed.
            self._checkpoints.job_ended(self.execution.status)
            self.over.set()

    def _tell_how_it_ended(self) -> None:
        if self._results.error is not None and self.execution.status is JobStatus.FINISHED:
            self.execution.status = JobStatus.FAILED
            self.execution.error = self._results.error
        status = self.execution.status
        if status is JobStatus.FINISHED:
            try:
                for taker in self._takers.values():
                    taker.succeeded()
                return
            except Exception as error:
                self.execution.status = JobStatus.FAILED
                self.execution.error = error
        elif status is JobStatus.CANCELED:
            killed = ", ".join(f"level {level} slot {slot}" for level, slot in self.killed_slots)
            reason = f": workers that did not stop in time were killed ({killed})" if killed else ""
            self.error = JobCancelledError(f"the job '{self._graph.name}' was cancelled{reason}")
        self.error = self.error or self.execution.error or JobError("the job failed")
        for taker in self._takers.values():
            taker.failed(self.error)

    def _deliver(self, vertex: int, subtask: int, event: Event) -> None:
        slot = (self._graph.vertices[vertex].level, subtask)
        message = _message(self._attempt, vertex, event)
        identity = self._identities.get(slot)
        if identity is None:
            self._undelivered.setdefault(slot, []).append(message)
        else:
            self.server.send(identity, message)


_ON_MESSAGE: dict[type, Callable[[JobManager, SlotId, Any], None]] = {
    Register: JobManager._on_register,
    Heartbeat: JobManager._on_heartbeat,
    SplitRequested: JobManager._on_split_requested,
    Results: JobManager._on_results,
    TaskDataEnded: JobManager._on_data_ended,
    TaskFinished: JobManager._on_finished,
    SlotFailed: JobManager._on_failed,
    CheckpointAcknowledged: JobManager._on_acknowledged,
    CheckpointDeclined: JobManager._on_declined,
}


def _message(attempt: int, vertex: int, event: Event) -> FromJobManager:
    if isinstance(event, AssignSplits):
        return SplitsAssigned(attempt, vertex, pickle.dumps(event.splits, protocol=5))
    if isinstance(event, NoMoreSplits):
        return SplitsExhausted(attempt, vertex)
    if isinstance(event, TriggerCheckpoint):
        return CheckpointTriggered(
            attempt, vertex, event.checkpoint_id, event.timestamp_ms, event.full, event.savepoint, event.stop
        )
    if isinstance(event, Drain):
        return SourceDrained(attempt, vertex)
    if isinstance(event, AbortCheckpoint):
        return CheckpointGivenUp(attempt, vertex, event.checkpoint_id)
    if isinstance(event, CheckpointComplete):
        return CheckpointCompleted(attempt, vertex, event.checkpoint_id)
    assert isinstance(event, (Close, Cancel))
    return CloseTasks(attempt) if isinstance(event, Close) else CancelTasks(attempt)


def slots_of(graph: JobGraph) -> dict[SlotId, list[int]]:
    """The vertices that each slot hosts, by (level, index)."""
    return {
        (level, index): [v.id for v in graph.vertices if v.level == level and index < v.parallelism]
        for level, width in enumerate(graph.widths)
        for index in range(width)
    }


def sources_of(graph: JobGraph) -> dict[int, tuple[Any, int]]:
    """The source of each vertex that has one, with its parallelism."""
    return {vertex.id: (vertex.nodes[0].operator.source, vertex.parallelism) for vertex in graph.sources}  # type: ignore[attr-defined]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
