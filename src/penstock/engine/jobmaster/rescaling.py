"""Other parallelism for a running job: a checkpoint, and the next attempts from it with another plan.

    IDLE            a request, which the plan and the free slots allow: a checkpoint is taken   CHECKPOINTING
    CHECKPOINTING   it is complete                                                              DUE
    DUE             no requested checkpoint is under way: regions that change are closed        CLOSING
    CLOSING         their tasks are gone: the next attempts are deployed                        STARTING
    STARTING        all tasks run                                                               IDLE
    STARTING        an attempt fails before: back to the plan before                            CLOSING

Whatever goes wrong before CLOSING leaves the job as it is. A region whose parallelism does not change runs on. What
tasks did after the checkpoint is done again, as after a failure, but no failure is counted. Source: Flink docs,
"Elastic Scaling"; FLIP-461, Synchronize rescaling with checkpoint creation.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping

from penstock.common.configuration import options
from penstock.common.errors import CheckpointError, JobError, NotEnoughSlotsError, PenstockError
from penstock.engine.checkpoint.requests import CheckpointRequest, Outcome
from penstock.engine.jobmaster.controlled_job import ControlledJob
from penstock.engine.jobmaster.effects import JobEffect, Reply
from penstock.engine.jobmaster.ending import JobEnding
from penstock.engine.jobmaster.events import RescaleRequested
from penstock.engine.jobmaster.notices import RescaleFailed, Rescaling
from penstock.engine.jobmaster.region import Region
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.rescaling import rescaled

Told = Callable[[str, PenstockError | None], None]
"""Is given the outcome of a change: what was done, or why nothing was."""


class RescalePhase(enum.Enum):
    """Where a change of the parallelism is."""

    IDLE = "none was requested"
    CHECKPOINTING = "the checkpoint that it begins with is under way"
    DUE = "that is complete"
    CLOSING = "the regions that change are closed"
    STARTING = "their next attempts start"


class JobRescaling:
    """Of one job. `emit` takes its effects, in order."""

    def __init__(self, job: ControlledJob, ending: JobEnding, emit: Callable[[JobEffect], None]) -> None:
        self._job = job
        self._ending = ending
        self._emit = emit
        self._phase = RescalePhase.IDLE
        self._told: Told | None = None
        """Who waits for the outcome; None: nobody any more."""
        self._next = job.graph
        self._before: JobGraph | None = None
        """The plan to go back to, if the next one does not run; None: this is it."""
        self._closing_ms = 0

    @property
    def is_closing(self) -> bool:
        """Whether regions are being closed, to be started again at once."""
        return self._phase is RescalePhase.CLOSING

    @property
    def is_idle(self) -> bool:
        """Whether no change is under way."""
        return self._phase is RescalePhase.IDLE

    def requested(self, event: RescaleRequested, done: Callable[[], None]) -> None:
        """The user asks for it. `done` is called if it was done."""

        def told(text: str, error: PenstockError | None) -> None:
            if error is None:
                done()
            self._emit(Reply(event.request, text, error))

        self.begin(event.parallelism, event.free_slots, told)

    def begin(self, parallelism: Mapping[int, int], free_slots: int | None, told: Told) -> None:
        """Run on with other numbers of subtasks, by vertex, if that can be. `told` is called once, with the outcome."""
        try:
            self._next = self._checked(parallelism, free_slots)
        except PenstockError as error:
            told("", error)
            return
        if not self._changed(self._next):
            told(f"'{self._job.graph.name}' has this parallelism already", None)
            return
        self._told = told
        self._phase = RescalePhase.CHECKPOINTING
        self._job.coordinator.request(CheckpointRequest(self._checkpointed), self._job.now_ms)

    def _checked(self, parallelism: Mapping[int, int], free_slots: int | None) -> JobGraph:
        job = self._job
        if not self._ending.takes_checkpoints or self._ending.is_requested:
            raise JobError(f"the job is about to end, or is not RUNNING ({job.status.name}): it can't be rescaled now")
        if job.is_changing:
            raise JobError("the job is being rescaled or updated already")
        if job.settings.checkpoints.interval_ms is None:
            raise JobError(
                "the job takes no checkpoints, so it would begin from the start with another parallelism: set "
                f"{options.CHECKPOINT_INTERVAL.key}. Or stop it with a savepoint, and run it from there with -p"
            )
        graph = rescaled(job.graph, parallelism)
        more = graph.slots - job.graph.slots
        if free_slots is not None and more > free_slots:
            raise NotEnoughSlotsError(
                f"the job holds {job.graph.slots} slots and would need {graph.slots}, and Spark has "
                f"{free_slots} free ones. Take a lower parallelism, or give the Spark application more slots: "
                "executors, local[N], or penstock cluster start --slots"
            )
        return graph

    def restart_with(self, graph: JobGraph) -> None:
        """The job is being restarted, and there are slots for this plan only: regions that run now change with it."""
        before, self._next, self._before = self._job.graph, graph, None
        self._answer(JobError("the job has lost slots, and goes on with fewer subtasks"))
        self._closing_ms = self._job.now_ms
        self._emit(Rescaling(before, graph))
        self._close()

    def _changed(self, graph: JobGraph) -> list[Region]:
        """The regions whose attempts have another parallelism than this plan."""
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
            self._over(JobError(f"the job keeps its parallelism, since the checkpoint failed: {outcome}"))
        else:
            self._phase = RescalePhase.DUE

    def go_on(self) -> None:
        """Something happened: close the regions that change, if it is time."""
        if self._phase is not RescalePhase.DUE:
            return
        if not self._ending.takes_checkpoints or self._ending.is_requested:
            self._over(JobError("the job keeps its parallelism: it is about to end, or has failed meanwhile"))
        elif not self._job.coordinator.request_waits:
            # Else a savepoint that its user waits for would be aborted.
            self._before = self._job.graph
            self._closing_ms = self._job.now_ms
            self._emit(Rescaling(self._before, self._next))
            self._close()

    def _close(self) -> None:
        self._phase = RescalePhase.CLOSING
        for region in self._changed(self._next):
            region.replace(self._job.now_ms)

    def attempts_begin(self) -> None:
        """The next attempts of all regions that are down begin."""
        if self._phase is RescalePhase.CLOSING:
            self._phase = RescalePhase.STARTING
            self._job.graph = self._next

    def all_run(self) -> None:
        """All tasks of the job run."""
        if self._phase is RescalePhase.STARTING:
            silent_s = (self._job.now_ms - self._closing_ms) / 1000
            widths = ", ".join(f"{vertex.name} {vertex.parallelism}" for vertex in self._job.graph.vertices)
            self._over(None, f"'{self._job.graph.name}' runs again after {silent_s:.1f} s: {widths}")

    def attempt_failed(self, error: BaseException) -> None:
        """An attempt has failed by itself. If it is one that was to show the new parallelism, the old one returns."""
        if self._phase is not RescalePhase.STARTING or self._before is None:
            return
        reason = f"it failed with another parallelism before all of it ran, and goes back to the one it had: {error}"
        self._emit(RescaleFailed(error))
        self._next, self._before = self._before, None
        self._answer(JobError(reason))
        self._close()

    def job_ends(self) -> None:
        """All regions are over, and none is started again."""
        if self._phase is not RescalePhase.IDLE:
            self._over(JobError("the job has ended before it was rescaled"))

    def _over(self, error: JobError | None, text: str = "") -> None:
        self._phase = RescalePhase.IDLE
        self._before = None
        self._answer(error, text)

    def _answer(self, error: JobError | None, text: str = "") -> None:
        told, self._told = self._told, None
        if told is not None:
            told(text, error)
