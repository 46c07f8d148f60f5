"""Other functions for a running job, which take their places at the barrier of a checkpoint.

    IDLE            a request that the plan allows: tasks are sent the new functions             PREPARING
    PREPARING       all of them have loaded and opened theirs: a checkpoint is requested         CHECKPOINTING
    PREPARING       one could not, or the job fails or is about to end: nothing has changed      IDLE
    CHECKPOINTING   it is complete: the next attempts have the new functions, too                IDLE
    CHECKPOINTING   it has failed: tasks may have either functions                               GOING_BACK
    GOING_BACK      regions with new functions are closed; they go on from the latest checkpoint IDLE
                    with the functions before

No task is deployed again. What the state of a checkpoint belongs to is never in doubt: what is restored from this one,
or a later one, meets the new functions, and what is restored from an earlier one those before. Source: State Management
paper, 3.3.1.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from penstock.common.configuration import options
from penstock.common.errors import CheckpointError, JobError, PenstockError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.requests import CheckpointRequest, Outcome
from penstock.engine.jobmaster.controlled_job import ControlledJob
from penstock.engine.jobmaster.effects import JobEffect, Reply
from penstock.engine.jobmaster.ending import JobEnding
from penstock.engine.jobmaster.events import UpdateRequested
from penstock.engine.jobmaster.notices import Updated
from penstock.engine.jobmaster.region import Region
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.updating import updated
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.task.events import ControlEvent, DropUpdate, Opaque, PrepareUpdate, UpdatePrepared

_AGAIN = (
    ". Ask again: between two failures it runs for a moment. Or run the new program as a job of its own from the "
    "newest checkpoint: penstock run -s DIRECTORY/ID/chk-N"
)


class UpdatePhase(enum.Enum):
    """Where an update is."""

    IDLE = "none was requested"
    PREPARING = "tasks open the new functions"
    CHECKPOINTING = "its checkpoint waits or is under way"
    GOING_BACK = "the checkpoint has failed"


class JobUpdating:
    """Of one job. `emit` takes its effects, in order."""

    def __init__(self, job: ControlledJob, ending: JobEnding, emit: Callable[[JobEffect], None]) -> None:
        self._job = job
        self._ending = ending
        self._emit = emit
        self._phase = UpdatePhase.IDLE
        self._number = 0
        """Of the newest update."""
        self._request = 0
        self._next: JobGraph = job.graph
        self._operators: list[str] = []
        self._tasks: set[SubtaskId] = set()
        """Those that are sent new functions."""
        self._awaited: set[SubtaskId] = set()
        """Those of them that have not answered."""

    @property
    def is_idle(self) -> bool:
        """Whether none is under way."""
        return self._phase is UpdatePhase.IDLE

    def requested(self, event: UpdateRequested) -> None:
        """The user asks for it."""
        try:
            self._check()
            update = updated(self._job.graph, event.program)
        except PenstockError as error:
            self._emit(Reply(event.request, error=error))
            return
        self._number += 1
        self._request, self._next, self._operators = event.request, update.graph, update.operators
        self._phase = UpdatePhase.PREPARING
        self._tasks = {
            SubtaskId(vertex, subtask)
            for vertex in update.functions
            for subtask in range(self._job.graph.vertices[vertex].parallelism)
        }
        self._awaited = set(self._tasks)
        for vertex, subtask in sorted(self._tasks):
            functions = Opaque.pickled(update.functions[vertex])
            prepare = PrepareUpdate(self._number, functions, event.classes, event.allow_non_restored)
            self._send(vertex, subtask, prepare)

    def _check(self) -> None:
        job = self._job
        if not self._ending.takes_checkpoints or self._ending.is_requested:
            raise JobError(
                f"the job is about to end, or is not RUNNING ({job.status.name}): it can't be updated now"
                f"{_AGAIN if job.status is JobStatus.RESTARTING else ''}"
            )
        if job.is_changing:
            raise JobError("the job is being rescaled or updated already: ask again when it is")
        if job.settings.checkpoints.interval_ms is None:
            raise JobError(
                "the job takes no checkpoints, and functions are replaced at one: set "
                f"{options.CHECKPOINT_INTERVAL.key}. Or stop it with a savepoint, and run the new program from there"
            )

    def prepared(self, task: SubtaskId, report: UpdatePrepared) -> None:
        """A task has opened its new functions, or could not."""
        if self._phase is not UpdatePhase.PREPARING or report.update != self._number:
            return
        if report.error:
            self._drop(JobError(f"nothing has changed: {report.error}"))
            return
        self._awaited.discard(task)
        if not self._awaited:
            self._phase = UpdatePhase.CHECKPOINTING
            options = CheckpointOptions(update=self._number)
            self._job.coordinator.request(CheckpointRequest(self._checkpointed, options), self._job.now_ms)

    def _checkpointed(self, outcome: Outcome) -> None:
        if isinstance(outcome, CheckpointError):
            self._phase = UpdatePhase.GOING_BACK
            self._reply(JobError(f"the job keeps its functions, since the checkpoint failed: {outcome}"))
            return
        self._job.graph = self._next
        self._phase = UpdatePhase.IDLE
        names = ", ".join(f"'{name}'" for name in self._operators)
        self._emit(Updated(self._operators, outcome.checkpoint_id))
        self._reply(
            None, f"'{self._job.graph.name}' has new functions from checkpoint {outcome.checkpoint_id} on: {names}"
        )

    def go_on(self) -> None:
        """Something happened."""
        if self._phase is UpdatePhase.PREPARING and not self._ending.takes_checkpoints:
            self._drop(JobError("nothing has changed: the job has failed meanwhile, or is about to end"))
        elif self._phase is UpdatePhase.GOING_BACK:
            self._phase = UpdatePhase.IDLE
            for region in self._regions():
                region.replace(self._job.now_ms)

    def job_ends(self) -> None:
        """All regions are over, and none is started again."""
        if self._phase in (UpdatePhase.PREPARING, UpdatePhase.CHECKPOINTING):
            self._phase = UpdatePhase.IDLE
            self._reply(JobError("the job has ended before it was updated"))

    def _drop(self, error: JobError) -> None:
        self._phase = UpdatePhase.IDLE
        for vertex, subtask in sorted(self._tasks):
            self._send(vertex, subtask, DropUpdate(self._number))
        self._reply(error)

    def _regions(self) -> list[Region]:
        """Those whose tasks may have the new functions; all, if their end has begun: none can go back alone then."""
        vertices = {task.vertex for task in self._tasks}
        return [
            region
            for region in self._job.regions
            if self._ending.has_begun or any(vertex.id in vertices for vertex in region.attempt.vertices)
        ]

    def _send(self, vertex: int, subtask: int, event: ControlEvent) -> None:
        self._job.regions.of_vertex(vertex).attempt.send(vertex, subtask, event)

    def _reply(self, error: JobError | None, text: str = "") -> None:
        self._emit(Reply(self._request, text, error))
