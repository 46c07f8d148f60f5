"""The JobManager of a pipelined job: deploys it, listens to its slots, ends it.

All decisions are those of `Execution`; this class connects it with the control server's thread, Spark and the clock.
"""

from __future__ import annotations

import pickle
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.cluster.execution import Execution, SlotId
from penstock.cluster.job_metrics import JobMetrics
from penstock.common import options
from penstock.common.configuration import Configuration
from penstock.common.errors import JobCancelledError, JobError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.control.messages import (
    CancelTasks,
    CloseTasks,
    FromJobManager,
    FromSlot,
    Heartbeat,
    Register,
    Results,
    SlotFailed,
    SplitRequested,
    SplitsAssigned,
    SplitsExhausted,
    TaskDataEnded,
    TaskFinished,
)
from penstock.control.server import ControlServer
from penstock.engine.failures import from_spark, revive
from penstock.engine.pipelined import PipelinedQuery
from penstock.plan.job_graph import JobGraph
from penstock.plan.results import ResultTaker
from penstock.runtime.events import AssignSplits, Cancel, Close, Event, NoMoreSplits

REGISTRATION_TIMEOUT_MS = 120_000
_FAILURE_GRACE_MS = 3_000
_QUERY_CHECK_MS = 500


class JobManager:
    """One attempt of one job. `deploy(server)` starts the query once the control port is open."""

    def __init__(
        self,
        graph: JobGraph,
        takers: dict[int, ResultTaker],
        configuration: Configuration,
        host: str,
        attempt: int,
    ) -> None:
        self._graph = graph
        self._takers = takers
        self._configuration = configuration
        self._attempt = attempt
        self._slots = slots_of(graph)
        self.metrics = JobMetrics(graph)
        self.execution = Execution(self._slots, sources_of(graph), self._deliver, _now_ms)
        self.execution.start()
        self.server = ControlServer(host)
        self._identities: dict[SlotId, bytes] = {}
        self._undelivered: dict[SlotId, list[FromJobManager]] = {}
        self._heard_ms: dict[SlotId, int] = {}
        self._query: PipelinedQuery | None = None
        self._began_ms = _now_ms()
        self._query_checked_ms = 0
        self._deadline_ms: int | None = None
        self.over = threading.Event()
        self.error: BaseException | None = None
        self.killed_slots: list[SlotId] = []
        self._taker_error: Exception | None = None
        self._ended = False
        self._results: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def run(self, deploy: Callable[[], PipelinedQuery]) -> None:
        """Deploy, then serve until the job is over. Returns at once; `over` is set at the end."""
        threading.Thread(target=self._take_results, name="penstock-results", daemon=True).start()
        self.server.start(
            lambda identity, message: self._guarded(lambda: self._on_message(identity, message)),
            lambda: self._guarded(self._on_tick),
        )
        try:
            self._query = query = deploy()
            if self._ended:
                query.stop()
        except Exception as error:
            failure = from_spark(error, self._configuration.get(options.SHOW_SPARK_STACK))
            self.server.call_soon(lambda: self._fail(failure))
            self.server.call_soon(self.execution.give_up)

    @property
    def status(self) -> JobStatus:
        """Where the job is."""
        status = self.execution.status
        return status if not self.execution.over or self.over.is_set() else JobStatus.RUNNING

    def cancel(self) -> None:
        """Ask all tasks to stop; those that do not in time are killed with their workers."""
        self.server.call_soon(self._cancel)

    def _cancel(self) -> None:
        timeout_ms = self._configuration.get(options.TASK_CANCELLATION_TIMEOUT)
        self._deadline_ms = _now_ms() + timeout_ms if timeout_ms else None
        self.execution.cancel()

    # The server's thread.

    def _on_message(self, identity: bytes, message: FromSlot) -> None:
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

    def _on_heartbeat(self, slot: SlotId, message: Heartbeat) -> None:
        self.metrics.update(message.reports)

    def _on_split_requested(self, slot: SlotId, message: SplitRequested) -> None:
        self._guarded(lambda: self.execution.split_requested(message.vertex, message.slot))

    def _on_results(self, slot: SlotId, message: Results) -> None:
        taker = self._takers.get(message.sink_id)
        if taker is not None:
            self._results.put(lambda: taker.take(message.slot, pickle.loads(message.values)))

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
        self._guarded(self.execution.tick)
        self._check_slots(now_ms)
        if now_ms - self._query_checked_ms >= _QUERY_CHECK_MS:
            self._query_checked_ms = now_ms
            self._check_query()
        if self._deadline_ms is not None and now_ms >= self._deadline_ms and not self.execution.over:
            self.killed_slots = self.execution.unfinished
            self.execution.give_up()
        if self.execution.over:
            self._end()

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
        if self._query is not None:
            self._query.stop()
        self.execution.close()
        self.server.stop()
        self._results.put(None)

    # The results' thread.

    def _take_results(self) -> None:
        while (call := self._results.get()) is not None:
            try:
                call()
            except Exception as error:
                self._taker_error = self._taker_error or error
                self.server.call_soon(partial(self._fail, error))
        try:
            self._tell_takers()
        finally:
            self.over.set()

    def _tell_takers(self) -> None:
        if self._taker_error is not None and self.execution.status is JobStatus.FINISHED:
            self.execution.status = JobStatus.FAILED
            self.execution.error = self._taker_error
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
}


def _message(attempt: int, vertex: int, event: Event) -> FromJobManager:
    if isinstance(event, AssignSplits):
        return SplitsAssigned(attempt, vertex, pickle.dumps(event.splits, protocol=5))
    if isinstance(event, NoMoreSplits):
        return SplitsExhausted(attempt, vertex)
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
