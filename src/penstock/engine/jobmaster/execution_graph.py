"""Define an immutable view of a job at one moment, which any thread may read.

Flink: ArchivedExecutionGraph, which its REST handlers render.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from penstock.common.errors import PenstockError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.history import CheckpointSummaries, LatestCheckpoints
from penstock.engine.checkpoint.manifest import SubtaskReport
from penstock.engine.checkpoint.report import CheckpointReport
from penstock.engine.jobmaster.execution_state import ExecutionState
from penstock.engine.jobmaster.notices import Autoscaled
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.ids import SlotId, SubtaskId

EARLIER_MAX = 16
"""Earlier attempts of a subtask. Source: Flink's default of jobmanager.execution.attempts-history-size."""


class Execution(msgspec.Struct, frozen=True):
    """An attempt of one subtask."""

    task: SubtaskId
    slot: SlotId
    attempt: int
    """Number of the attempt, from 0."""
    state: ExecutionState
    since_ms: Mapping[ExecutionState, int]
    """When it reached each of its states, in this order."""
    earlier: Sequence[Execution] = ()
    """For the present attempt: the newest attempts before it, oldest first."""

    def history_for_next(self, state: ExecutionState, now_ms: int) -> tuple[Execution, ...]:
        """Return `earlier` of the next attempt. `state`: the final state of this one, if it has not been reported."""
        ended = msgspec.structs.replace(self, earlier=())
        if ended.state not in ENDED:
            ended = msgspec.structs.replace(ended, state=state, since_ms={**ended.since_ms, state: now_ms})
        return (*self.earlier, ended)[-EARLIER_MAX:]

    @property
    def started_ms(self) -> int | None:
        """When it was deployed, or None."""
        return self.since_ms.get(ExecutionState.DEPLOYING)

    @property
    def ended_ms(self) -> int | None:
        """When it ended, or None."""
        return self.since_ms[self.state] if self.state in ENDED else None


ENDED = frozenset({ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED})


def error_name(error: BaseException) -> str:
    """Return the class of an error as users import it."""
    name = type(error).__name__
    return f"penstock.{name}" if isinstance(error, PenstockError) else name


class JobFailure(msgspec.Struct, frozen=True):
    """A failure that restarted the job or a part of it, or ended it."""

    error: str
    """The error's class as users catch it."""
    text: str
    """The error's text; for an error of a user's function, it begins with the user's traceback."""
    at_ms: int
    slot: SlotId | None = None
    """The slot whose tasks failed, or None if no single slot failed."""
    attempt: int = 0
    """Number of the slot's attempt, from 0."""


class CheckpointUnderWay(msgspec.Struct, frozen=True):
    """A checkpoint in progress."""

    checkpoint_id: int
    triggered_ms: int
    acknowledged: int
    of_subtasks: int
    savepoint: str
    subtasks: Sequence[SubtaskReport] = ()
    """Reports of the subtasks that have acknowledged it, in order of arrival."""
    tasks: Sequence[SubtaskId] = ()
    """The subtasks of these reports, in the same order."""
    parallelism: Mapping[int, int] = {}
    """Number of subtasks of each vertex, by its id."""
    stops: bool = False
    """Whether it stops the job."""


class RestoredCheckpoint(msgspec.Struct, frozen=True):
    """The checkpoint or savepoint of the latest restore."""

    checkpoint_id: int
    at_ms: int
    savepoint: bool
    path: str = ""
    """Its path; empty if it is in the job's own directory, under its number."""


class Checkpoints(msgspec.Struct, frozen=True):
    """The checkpoints and savepoints of a job."""

    under_way: Sequence[CheckpointUnderWay] = ()
    history: Sequence[CheckpointReport] = ()
    """The newest completed or failed checkpoints and savepoints, oldest first."""
    latest: LatestCheckpoints = LatestCheckpoints()
    summaries: CheckpointSummaries = CheckpointSummaries()
    completed_count: int = 0
    failed_count: int = 0
    restored_count: int = 0
    restored: RestoredCheckpoint | None = None
    retained: frozenset[int] = frozenset()
    """The numbers of completed checkpoints whose files are kept."""


class ExecutionGraph(msgspec.Struct, frozen=True):
    """A job at one moment."""

    job_id: str
    graph: JobGraph
    status: JobStatus
    status_ms: Mapping[JobStatus, int]
    """When it last reached each status."""
    submitted_ms: int
    """When it was submitted. Restarts do not change this."""
    restarts: int
    executions: Mapping[SubtaskId, Execution]
    failures: Sequence[JobFailure]
    """The newest failures, oldest first."""
    failures_are_complete: bool
    """Whether there are no older failures."""
    checkpoints: Checkpoints
    autoscaled: Sequence[Autoscaled] = ()
    """The newest decisions of the autoscaler, oldest first."""
    down_since_ms: int | None = None
    """Since when it is failing or restarting; None if all its tasks run."""

    def executions_of(self, vertex: int) -> list[Execution]:
        """Return the executions of one vertex, by subtask."""
        count = self.graph.vertices[vertex].parallelism
        return [self.executions[SubtaskId(vertex, subtask)] for subtask in range(count)]
