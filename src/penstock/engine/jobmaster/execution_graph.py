"""A job at one moment, for those who read about it from outside: immutable, so any thread may.

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

EARLIER_MOST = 16
"""Of attempts of a subtask. Source: Flink's default of jobmanager.execution.attempts-history-size."""


class Execution(msgspec.Struct, frozen=True):
    """An attempt of one subtask."""

    task: SubtaskId
    slot: SlotId
    attempt: int
    """From 0."""
    state: ExecutionState
    since_ms: Mapping[ExecutionState, int]
    """When it came to each of its states, in this order."""
    earlier: Sequence[Execution] = ()
    """Of the present attempt: the newest of those before it, oldest first."""

    def then_earlier(self, state: ExecutionState, now_ms: int) -> tuple[Execution, ...]:
        """What the next attempt has before it. `state`: in which this one has ended, if that was not seen."""
        ended = msgspec.structs.replace(self, earlier=())
        if ended.state not in ENDED:
            ended = msgspec.structs.replace(ended, state=state, since_ms={**ended.since_ms, state: now_ms})
        return (*self.earlier, ended)[-EARLIER_MOST:]

    @property
    def started_ms(self) -> int | None:
        """When it was deployed; None: it is not yet."""
        return self.since_ms.get(ExecutionState.DEPLOYING)

    @property
    def ended_ms(self) -> int | None:
        """When it ended; None: it has not."""
        return self.since_ms[self.state] if self.state in ENDED else None


ENDED = frozenset({ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED})


def error_name(error: BaseException) -> str:
    """The class of an error, as users import it."""
    name = type(error).__name__
    return f"penstock.{name}" if isinstance(error, PenstockError) else name


class JobFailure(msgspec.Struct, frozen=True):
    """A failure that has restarted the job or a part of it, or has ended it."""

    error: str
    """The error's class, as users catch it."""
    text: str
    """What it says: for an error of a user's function, the user's traceback first."""
    at_ms: int
    slot: SlotId | None = None
    """The slot whose tasks have failed; None: none in particular."""
    attempt: int = 0
    """Which attempt of it, from 0."""


class CheckpointUnderWay(msgspec.Struct, frozen=True):
    """A checkpoint that is being collected."""

    checkpoint_id: int
    triggered_ms: int
    acknowledged: int
    of_subtasks: int
    savepoint: str
    subtasks: Sequence[SubtaskReport] = ()
    """Of those that have acknowledged it, in the order in which they have."""
    tasks: Sequence[SubtaskId] = ()
    """Whose they are, in the same order."""
    parallelism: Mapping[int, int] = {}
    """How many subtasks each vertex has, by its id."""
    stops: bool = False
    """Whether the job stops with it."""


class RestoredCheckpoint(msgspec.Struct, frozen=True):
    """What tasks were restored from the last time."""

    checkpoint_id: int
    at_ms: int
    savepoint: bool
    path: str = ""
    """Where that is; empty: in the job's own directory, by its number."""


class Checkpoints(msgspec.Struct, frozen=True):
    """The checkpoints and savepoints of a job."""

    under_way: Sequence[CheckpointUnderWay] = ()
    history: Sequence[CheckpointReport] = ()
    """The newest that have completed or failed, savepoints included, oldest first."""
    latest: LatestCheckpoints = LatestCheckpoints()
    summaries: CheckpointSummaries = CheckpointSummaries()
    completed_count: int = 0
    failed_count: int = 0
    restored_count: int = 0
    restored: RestoredCheckpoint | None = None
    retained: frozenset[int] = frozenset()
    """The numbers of completed checkpoints whose files are kept."""


class ExecutionGraph(msgspec.Struct, frozen=True):
    """The job."""

    job_id: str
    graph: JobGraph
    status: JobStatus
    status_ms: Mapping[JobStatus, int]
    """When it last came to each of the states in which it was."""
    submitted_ms: int
    """When it was submitted, which no restart changes."""
    restarts: int
    executions: Mapping[SubtaskId, Execution]
    failures: Sequence[JobFailure]
    """The newest, oldest first."""
    failures_are_all: bool
    """Whether there were no older ones."""
    checkpoints: Checkpoints
    autoscaled: Sequence[Autoscaled] = ()
    """The newest decisions of the autoscaler, oldest first."""
    down_since_ms: int | None = None
    """Since when it is failing or restarting, until all its tasks run again; None: it is not."""

    def executions_of(self, vertex: int) -> list[Execution]:
        """Those of one vertex, by subtask."""
        count = self.graph.vertices[vertex].parallelism
        return [self.executions[SubtaskId(vertex, subtask)] for subtask in range(count)]
