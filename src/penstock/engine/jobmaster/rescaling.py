"""Change the parallelism of a running job: take a checkpoint, and start the next attempts from it with another plan.

    IDLE            a request that the plan and the free slots allow: a checkpoint is taken     CHECKPOINTING
    CHECKPOINTING   the checkpoint is complete                                                  DUE
    DUE             no requested checkpoint is in progress: regions that change are closed      CLOSING
    CLOSING         their tasks are gone: the next attempts are deployed                        STARTING
    STARTING        all tasks run                                                               IDLE
    STARTING        an attempt fails before: the job returns to the previous plan               CLOSING

An error before CLOSING leaves the job unchanged. A region whose parallelism does not change continues to run. The work
since the checkpoint is repeated as after a failure, but no failure is counted. Source: Flink docs, "Elastic Scaling";
FLIP-461, Synchronize rescaling with checkpoint creation.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping

from penstock.common.configuration import options
from penstock.common.errors import CheckpointError, JobError, NotEnoughSlotsError, PenstockError
from penstock.engine.checkpoint.schedule import CheckpointRequest, Outcome
from penstock.engine.jobmaster.controlled_job import ControlledJob
from penstock.engine.jobmaster.effects import JobEffect, Reply
from penstock.engine.jobmaster.ending import JobEnding
from penstock.engine.jobmaster.events import RescaleRequested
from penstock.engine.jobmaster.notices import RescaleFailed, Rescaling
from penstock.engine.jobmaster.region import Region
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.rescaling import rescaled

RescaleEnded = Callable[[str, PenstockError | None], None]
"""Gets the outcome of a change: a text for the user, or an error."""


class RescalePhase(enum.Enum):
    """Phase of a change of the parallelism."""

    IDLE = "no change is requested"
    CHECKPOINTING = "the checkpoint for the change is in progress"
    DUE = "the checkpoint is complete"
    CLOSING = "the regions that change are closed"
    STARTING = "their next attempts start"


class JobRescaling:
    """Rescale one job. `emit` receives its effects, in order."""

    def __init__(self, job: ControlledJob, ending: JobEnding, emit: Callable[[JobEffect], None]) -> None:
        self._job = job
        self._ending = ending
        self._emit = emit
        self._phase = RescalePhase.IDLE
        self._on_end: RescaleEnded | None = None
        """Gets the outcome. None after it was called."""
        self._next = job.graph
        self._before: JobGraph | None = None
        """The plan to return to if the next one does not run, or None if there is no return."""
        self._closing_ms = 0

    @property
    def is_closing(self) -> bool:
        """Whether regions are being closed for the change."""
        return self._phase is RescalePhase.CLOSING

    @property
    def is_idle(self) -> bool:
        """Whether no change is in progress."""
        return self._phase is RescalePhase.IDLE

    def requested(self, event: RescaleRequested, done: Callable[[], None]) -> None:
        """Handle the user's request. Call `done` if it succeeds."""

        def ended(text: str, error: PenstockError | None) -> None:
            if error is None:
                done()
            self._emit(Reply(event.request, text, error))

        self.begin(event.parallelism, event.free_slots, ended)

    def begin(self, parallelism: Mapping[int, int], free_slots: int | None, on_end: RescaleEnded) -> None:
        """Begin to change the parallelism of vertices, if possible. Call `on_end` once, with the outcome."""
        try:
            self._next = self._checked(parallelism, free_slots)
        except PenstockError as error:
            on_end("", error)
            return
        if not self._changed(self._next):
            on_end(f"'{self._job.graph.name}' already has this parallelism", None)
            return
        self._on_end = on_end
        self._phase = RescalePhase.CHECKPOINTING
        self._job.coordinator.request(CheckpointRequest(self._checkpointed), self._job.now_ms)

    def _checked(self, parallelism: Mapping[int, int], free_slots: int | None) -> JobGraph:
        job = self._job
        if not self._ending.takes_checkpoints or self._ending.is_requested:
            raise JobError(f"the job is about to end, or is not RUNNING ({job.status.name}): it can't be rescaled now")
        if job.is_changing:
            raise JobError("the job is already being rescaled or updated")
        if job.settings.checkpoints.interval_ms is None:
            raise JobError(
                "the job takes no checkpoints, so with another parallelism it would start from the beginning: set "
                f"{options.CHECKPOINT_INTERVAL.key}. Or stop it with a savepoint, and run it from the savepoint with -p"
            )
        graph = rescaled(job.graph, parallelism)
        more = graph.slots - job.graph.slots
        if free_slots is not None and more > free_slots:
            raise NotEnoughSlotsError(
                f"the job has {job.graph.slots} slots and needs {graph.slots}, but Spark has {free_slots} free slots. "
                "Choose a lower parallelism, or give the Spark application more slots: executors, local[N], or "
                "penstock cluster start --slots"
            )
        return graph

    def restart_with(self, graph: JobGraph) -> None:
        """Restart the job with this plan, because slots were lost. Regions that still run change, too."""
        before, self._next, self._before = self._job.graph, graph, None
        self._reply(JobError("the job has lost slots and continues with fewer subtasks"))
        self._closing_ms = self._job.now_ms
        self._emit(Rescaling(before, graph))
        self._close()

    def _changed(self, graph: JobGraph) -> list[Region]:
        """Return the regions whose attempts have another parallelism than this plan."""
        return [
            region
            for region in self._job.regions
            if any(
                vertex.parallelism != graph.vertices[vertex.id].parallelism
                for vertex in region.attempt.graph.vertices_of(region.index)
            )
        ]

    def _checkpointed(self, outcome: Outcome) -> None:
        if isinstance(outcome, CheckpointError):
            self._end(JobError(f"the job keeps its parallelism because the checkpoint failed: {outcome}"))
        else:
            self._phase = RescalePhase.DUE

    def advance(self) -> None:
        """Close the regions that change, if it is time."""
        if self._phase is not RescalePhase.DUE:
            return
        if not self._ending.takes_checkpoints or self._ending.is_requested:
            self._end(JobError("the job keeps its parallelism: it is about to end, or has failed in the meantime"))
        elif not self._job.coordinator.request_waits:
            # Otherwise a savepoint for which a user waits would be aborted.
            self._before = self._job.graph
            self._closing_ms = self._job.now_ms
            self._emit(Rescaling(self._before, self._next))
            self._close()

    def _close(self) -> None:
        self._phase = RescalePhase.CLOSING
        for region in self._changed(self._next):
            region.replace(self._job.now_ms)

    def attempts_begin(self) -> None:
        """Use the new plan: the next attempts of all regions that are down begin."""
        if self._phase is RescalePhase.CLOSING:
            self._phase = RescalePhase.STARTING
            self._job.graph = self._next

    def all_tasks_started(self) -> None:
        """End the change: all tasks of the job run."""
        if self._phase is RescalePhase.STARTING:
            silent_s = (self._job.now_ms - self._closing_ms) / 1000
            widths = ", ".join(f"{vertex.name} {vertex.parallelism}" for vertex in self._job.graph.vertices)
            self._end(None, f"'{self._job.graph.name}' runs again after {silent_s:.1f} s: {widths}")

    def attempt_failed(self, error: BaseException) -> None:
        """Return to the previous plan if an attempt with the new parallelism has failed before all tasks ran."""
        if self._phase is not RescalePhase.STARTING or self._before is None:
            return
        reason = (
            f"the job failed before all tasks ran with the new parallelism, and returns to the previous one: {error}"
        )
        self._emit(RescaleFailed(error))
        self._next, self._before = self._before, None
        self._reply(JobError(reason))
        self._close()

    def job_ends(self) -> None:
        """End the change: all regions have ended and no region restarts."""
        if self._phase is not RescalePhase.IDLE:
            self._end(JobError("the job ended before it was rescaled"))

    def _end(self, error: JobError | None, text: str = "") -> None:
        self._phase = RescalePhase.IDLE
        self._before = None
        self._reply(error, text)

    def _reply(self, error: JobError | None, text: str = "") -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(text, error)
