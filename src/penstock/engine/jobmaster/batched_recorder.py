"""Record the progress of a batched job, whose slots Spark runs stage after stage, as an ExecutionGraph.

A slot reports that it runs and that it has finished. All other states follow from the job's status: that Spark has lost
a slot is known only from the slot's next execution.
"""

from __future__ import annotations

import msgspec

from penstock.common.job_status import JobStatus
from penstock.common.text.secrets import redacted_error
from penstock.engine.jobmaster.execution_graph import (
    ENDED,
    Checkpoints,
    Execution,
    ExecutionGraph,
    JobFailure,
    error_name,
)
from penstock.engine.jobmaster.execution_state import ExecutionState
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.ids import SlotId, SubtaskId

_FAILURES_MAX = 16
"""Flink: web.exception-history-size."""
_STATE_AT_END = {
    JobStatus.FINISHED: ExecutionState.FINISHED,
    JobStatus.CANCELED: ExecutionState.CANCELED,
    JobStatus.FAILED: ExecutionState.CANCELED,
}
"""The state of tasks that have not ended when the job ends, by its status."""


class BatchedRecorder:
    """Record one job. Any thread may read `published`; methods are called by one thread at a time."""

    def __init__(self, job_id: str, graph: JobGraph, now_ms: int) -> None:
        self._job_id = job_id
        self._graph = graph
        self._submitted_ms = now_ms
        self._status_ms = {JobStatus.CREATED: now_ms}
        self._failures: tuple[JobFailure, ...] = ()
        self._spark_jobs = 0
        """How often the Spark job was started again: each numbers its task attempts from zero."""
        self._spark_attempts: dict[SlotId, list[tuple[int, int]]] = {}
        """Spark's attempts of each slot, by the Spark job and Spark's number of the attempt; the newest last."""
        self._executions: dict[SubtaskId, Execution] = {}
        self._tasks: dict[SlotId, list[SubtaskId]] = {}
        for vertex in graph.vertices:
            for subtask in range(vertex.parallelism):
                task, slot = SubtaskId(vertex.id, subtask), SlotId(vertex.level, subtask)
                self._tasks.setdefault(slot, []).append(task)
                self._executions[task] = Execution(task, slot, attempt=0, state=ExecutionState.CREATED, since_ms={})
        self.published = self._graph_of(JobStatus.CREATED)

    def slot_reported(self, slot: SlotId, spark_attempt: int, has_finished: bool, now_ms: int) -> bool:
        """Record that Spark's attempt of a slot is alive or has finished. Return False if there is a newer attempt."""
        attempts, numbered = self._spark_attempts.setdefault(slot, []), (self._spark_jobs, spark_attempt)
        if not attempts or numbered > attempts[-1]:
            attempts.append(numbered)
            for task in self._tasks[slot]:
                known = self._executions[task]
                self._executions[task] = Execution(
                    task,
                    slot,
                    attempt=len(attempts) - 1,
                    state=ExecutionState.RUNNING,
                    since_ms=dict.fromkeys((ExecutionState.DEPLOYING, ExecutionState.RUNNING), now_ms),
                    # Spark starts another attempt when it has lost the one before.
                    earlier=known.history_for_next(ExecutionState.FAILED, now_ms) if len(attempts) > 1 else (),
                )
            self._publish()
        elif numbered < attempts[-1]:
            return False
        if has_finished:
            self._set_state(self._tasks[slot], ExecutionState.FINISHED, now_ms)
            self._publish()
        return True

    def restarted(self, now_ms: int, error: BaseException) -> None:
        """Record that the Spark job was lost by this error, and that another one runs all slots again."""
        self._spark_jobs += 1
        running = [task for task, one in self._executions.items() if one.state is ExecutionState.RUNNING]
        self._set_state(running, ExecutionState.FAILED, now_ms)
        self.status_changed(JobStatus.RESTARTING, now_ms, error)

    def status_changed(self, status: JobStatus, now_ms: int, error: BaseException | None = None) -> None:
        """Record the job's new status. `error`: why it failed."""
        self._status_ms[status] = now_ms
        if error is not None:
            failure = JobFailure(error_name(error), redacted_error(error), now_ms)
            self._failures = (*self._failures, failure)[-_FAILURES_MAX:]
        if status in _STATE_AT_END:
            self._set_state(list(self._executions), _STATE_AT_END[status], now_ms)
        elif status is JobStatus.CANCELLING:
            running = [task for task, one in self._executions.items() if one.state is ExecutionState.RUNNING]
            self._set_state(running, ExecutionState.CANCELING, now_ms)
        self._publish(status)

    def _set_state(self, tasks: list[SubtaskId], state: ExecutionState, now_ms: int) -> None:
        for task in tasks:
            known = self._executions[task]
            if known.state not in ENDED:
                self._executions[task] = msgspec.structs.replace(
                    known, state=state, since_ms={**known.since_ms, state: now_ms}
                )

    def _publish(self, status: JobStatus | None = None) -> None:
        self.published = self._graph_of(status or self.published.status)

    def _graph_of(self, status: JobStatus) -> ExecutionGraph:
        return ExecutionGraph(
            job_id=self._job_id,
            graph=self._graph,
            status=status,
            status_ms=dict(self._status_ms),
            submitted_ms=self._submitted_ms,
            restarts=0,
            executions=dict(self._executions),
            failures=self._failures,
            failures_are_complete=True,
            checkpoints=Checkpoints(),
        )
