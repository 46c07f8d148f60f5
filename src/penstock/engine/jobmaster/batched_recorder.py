"""Records how a batched job goes, whose slots Spark runs stage after stage: an ExecutionGraph as of a pipelined one.

A slot says that it runs, and that it has finished. What it has not said is known from the job itself: of a slot that
Spark has lost only the next run tells.
"""

from __future__ import annotations

import msgspec

from penstock.common.job_status import JobStatus
from penstock.common.text.secrets import told_error
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

_FAILURES_MOST = 16
"""Flink: web.exception-history-size."""
_AT_END = {
    JobStatus.FINISHED: ExecutionState.FINISHED,
    JobStatus.CANCELED: ExecutionState.CANCELED,
    JobStatus.FAILED: ExecutionState.CANCELED,
}
"""What becomes of tasks that have not ended when the job does."""


class BatchedRecorder:
    """Of one job. `published` may be read by any thread; methods are called by one at a time."""

    def __init__(self, job_id: str, graph: JobGraph, now_ms: int) -> None:
        self._job_id = job_id
        self._graph = graph
        self._submitted_ms = now_ms
        self._status_ms = {JobStatus.CREATED: now_ms}
        self._failures: tuple[JobFailure, ...] = ()
        self._job_runs = 0
        """How often the Spark job was begun again: each one counts its runs of slots from zero."""
        self._runs: dict[SlotId, list[tuple[int, int]]] = {}
        """The runs of each slot, each by the Spark job and Spark's own number: the newest last."""
        self._executions: dict[SubtaskId, Execution] = {}
        self._tasks: dict[SlotId, list[SubtaskId]] = {}
        for vertex in graph.vertices:
            for subtask in range(vertex.parallelism):
                task, slot = SubtaskId(vertex.id, subtask), SlotId(vertex.level, subtask)
                self._tasks.setdefault(slot, []).append(task)
                self._executions[task] = Execution(task, slot, 0, ExecutionState.CREATED, {})
        self.published = self._graph_of(JobStatus.CREATED)

    def slot_reported(self, slot: SlotId, run: int, has_finished: bool, now_ms: int) -> bool:
        """A run of a slot is alive, or has finished. False: there is a newer run, and this one does not count."""
        runs, numbered = self._runs.setdefault(slot, []), (self._job_runs, run)
        if not runs or numbered > runs[-1]:
            runs.append(numbered)
            for task in self._tasks[slot]:
                since_ms = dict.fromkeys((ExecutionState.DEPLOYING, ExecutionState.RUNNING), now_ms)
                # Spark begins a run anew when it has lost the one before.
                before = self._executions[task].then_earlier(ExecutionState.FAILED, now_ms) if len(runs) > 1 else ()
                self._executions[task] = Execution(task, slot, len(runs) - 1, ExecutionState.RUNNING, since_ms, before)
            self._publish()
        elif numbered < runs[-1]:
            return False
        if has_finished:
            self._become(self._tasks[slot], ExecutionState.FINISHED, now_ms)
            self._publish()
        return True

    def begins_again(self, now_ms: int, error: BaseException) -> None:
        """The Spark job was lost by this error: another one takes its place, and runs all slots."""
        self._job_runs += 1
        running = [task for task, one in self._executions.items() if one.state is ExecutionState.RUNNING]
        self._become(running, ExecutionState.FAILED, now_ms)
        self.job_became(JobStatus.RESTARTING, now_ms, error)

    def job_became(self, status: JobStatus, now_ms: int, error: BaseException | None = None) -> None:
        """The job has another status. `error`: why it failed."""
        self._status_ms[status] = now_ms
        if error is not None:
            failure = JobFailure(error_name(error), told_error(error), now_ms)
            self._failures = (*self._failures, failure)[-_FAILURES_MOST:]
        if status in _AT_END:
            self._become(list(self._executions), _AT_END[status], now_ms)
        elif status is JobStatus.CANCELLING:
            running = [task for task, one in self._executions.items() if one.state is ExecutionState.RUNNING]
            self._become(running, ExecutionState.CANCELING, now_ms)
        self._publish(status)

    def _become(self, tasks: list[SubtaskId], state: ExecutionState, now_ms: int) -> None:
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
            self._job_id,
            self._graph,
            status,
            dict(self._status_ms),
            self._submitted_ms,
            0,
            dict(self._executions),
            self._failures,
            True,
            Checkpoints(),
        )
