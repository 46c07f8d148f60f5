"""Replace functions of a running job at the barrier of a checkpoint.

    IDLE            a request that the plan allows: tasks get the new functions                  PREPARING
    PREPARING       all tasks have loaded and opened them: a checkpoint is requested             CHECKPOINTING
    PREPARING       a task could not, or the job fails or is about to end: nothing has changed   IDLE
    CHECKPOINTING   it is complete: later attempts also have the new functions                   IDLE
    CHECKPOINTING   it has failed: tasks may have the old or the new functions                   GOING_BACK
    GOING_BACK      regions with new functions are closed; they continue from the latest         IDLE
                    checkpoint with the old functions

No task is deployed again. A restore always uses the functions that belong to the checkpoint: the new ones for this
checkpoint and later ones, the old ones for earlier checkpoints. Source: State Management paper, 3.3.1.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from penstock.common.configuration import options
from penstock.common.errors import CheckpointError, JobError, PenstockError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.schedule import CheckpointRequest, Outcome
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
    ". Try again: between two failures it runs for a moment. Or run the new program as a separate job from the newest "
    "checkpoint: penstock run -s DIRECTORY/ID/chk-N"
)


class UpdatePhase(enum.Enum):
    """Phase of an update."""

    IDLE = "no update is requested"
    PREPARING = "tasks open the new functions"
    CHECKPOINTING = "its checkpoint is requested or in progress"
    GOING_BACK = "the checkpoint has failed"


class JobUpdating:
    """Update one job. `emit` receives its effects, in order."""

    def __init__(self, job: ControlledJob, ending: JobEnding, emit: Callable[[JobEffect], None]) -> None:
        self._job = job
        self._ending = ending
        self._emit = emit
        self._phase = UpdatePhase.IDLE
        self._number = 0
        """Number of the newest update."""
        self._request = 0
        self._next: JobGraph = job.graph
        self._operators: list[str] = []
        self._tasks: set[SubtaskId] = set()
        """Tasks that get new functions."""
        self._awaited: set[SubtaskId] = set()
        """Tasks that have not answered yet."""

    @property
    def is_idle(self) -> bool:
        """Whether no update is in progress."""
        return self._phase is UpdatePhase.IDLE

    def requested(self, event: UpdateRequested) -> None:
        """Handle the user's request."""
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
            raise JobError("the job is already being rescaled or updated: try again afterwards")
        if job.settings.checkpoints.interval_ms is None:
            raise JobError(
                "the job takes no checkpoints, and functions are replaced at a checkpoint: set "
                f"{options.CHECKPOINT_INTERVAL.key}. Or stop the job with a savepoint, and run the new program from it"
            )

    def prepared(self, task: SubtaskId, report: UpdatePrepared) -> None:
        """Handle a task's report that it has opened its new functions, or could not."""
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
            self._reply(JobError(f"the job keeps its functions because the checkpoint failed: {outcome}"))
            return
        self._job.graph = self._next
        self._job.coordinator.plan_changed(self._next.compiled_plan)
        self._phase = UpdatePhase.IDLE
        names = ", ".join(f"'{name}'" for name in self._operators)
        self._emit(Updated(self._operators, outcome.checkpoint_id))
        self._reply(
            None, f"'{self._job.graph.name}' has new functions since checkpoint {outcome.checkpoint_id}: {names}"
        )

    def advance(self) -> None:
        """Drop an update if the job no longer runs, or close regions to return to the old functions."""
        if self._phase is UpdatePhase.PREPARING and not self._ending.takes_checkpoints:
            self._drop(JobError("nothing has changed: the job has failed in the meantime, or is about to end"))
        elif self._phase is UpdatePhase.GOING_BACK:
            self._phase = UpdatePhase.IDLE
            for region in self._regions():
                region.replace(self._job.now_ms)

    def job_ends(self) -> None:
        """End an update: all regions have ended and no region restarts."""
        if self._phase in (UpdatePhase.PREPARING, UpdatePhase.CHECKPOINTING):
            self._phase = UpdatePhase.IDLE
            self._reply(JobError("the job ended before it was updated"))

    def _drop(self, error: JobError) -> None:
        self._phase = UpdatePhase.IDLE
        for vertex, subtask in sorted(self._tasks):
            self._send(vertex, subtask, DropUpdate(self._number))
        self._reply(error)

    def _regions(self) -> list[Region]:
        """Return the regions whose tasks may have new functions; all if the end has begun, when none returns alone."""
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
