"""A job that has as many subtasks as there are slots.

    more slots     when its tasks have run for the cooldown, and there are all slots that it can use, or the first
                   further ones have been there for the executing stabilization timeout: a checkpoint, and the next
                   attempts with more subtasks. One that has just been submitted takes what there is at once
    fewer slots    what ran in them has failed. When the job is to be restarted, lacks slots, and there have been no
                   others for the stabilization timeout, the next attempts have fewer subtasks

A user who asks for another parallelism changes what the job is to have at the most; that of a reactive job is nobody's
to choose. How many slots there are is asked once a second (CountSlots). Source: Flink docs, "Elastic Scaling";
FLIP-160, FLIP-291, FLIP-472.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.common.errors import JobError, PenstockError
from penstock.engine.jobmaster.controlled_job import ControlledJob
from penstock.engine.jobmaster.effects import CountSlots, JobEffect, Reply
from penstock.engine.jobmaster.events import RescaleRequested, SlotsCounted
from penstock.engine.jobmaster.rescaling import JobRescaling
from penstock.engine.jobmaster.slot_following_settings import SlotFollowingSettings
from penstock.engine.plan.rescaling import fitted, highest

ASK_EVERY_MS = 1_000


class SlotFollowing:
    """Of one job. `emit` takes its effects, in order."""

    def __init__(self, job: ControlledJob, rescaling: JobRescaling, emit: Callable[[JobEffect], None]) -> None:
        self._job = job
        self._rescaling = rescaling
        self._emit = emit
        self._settings = job.settings.slot_following
        self._most = highest(job.graph, self._settings.reactive) if self._settings is not None else {}
        self._asked_ms: int | None = None
        """When slots were asked for last; the answer is not there as long as `_waits`."""
        self._waits = False
        self._slots: int | None = None
        self._since_ms = 0
        """Since when there have been so many slots."""
        self._grows_at_ms = job.now_ms
        """Not before."""
        self._is_new = False
        """Whether it has just been submitted."""
        self._more_since_ms: int | None = None
        """Since when it could have more subtasks; None: it could not."""

    def all_run(self) -> None:
        """All tasks of the job run."""
        if self._settings is not None:
            self._is_new = self._slots is None
            self._more_since_ms = None
            self._grows_at_ms = self._job.now_ms + (0 if self._is_new else self._settings.cooldown_ms)

    def rescale_requested(self, event: RescaleRequested) -> None:
        """The user asks for another parallelism."""
        if self._settings is not None and self._settings.reactive:
            refusal = JobError(
                "the job is reactive: it has as many subtasks as there are slots. Give it other slots, or run it "
                "without scheduler-mode: reactive"
            )
            self._emit(Reply(event.request, error=refusal))
            return
        # Else the next slots that come would undo it.
        self._rescaling.requested(event, lambda: self._most.update(event.parallelism))

    def tick(self, is_restarting: bool) -> None:
        """Something happened, or time has passed. `is_restarting`: regions wait for their restart."""
        if self._settings is None or not (is_restarting or self._job.regions.all_running):
            return
        if is_restarting and self._slots is not None and not self._rescaling.is_closing:
            self._shrink(self._slots)
        wake_ms = self.wake_at_ms()
        if not self._waits and (wake_ms is None or self._job.now_ms >= wake_ms):
            self._asked_ms = self._job.now_ms
            self._waits = True
            self._emit(CountSlots())

    def wake_at_ms(self) -> int | None:
        """When to ask for slots."""
        if self._settings is None or self._waits or self._asked_ms is None:
            return None
        return self._asked_ms + ASK_EVERY_MS

    def slots_counted(self, event: SlotsCounted) -> None:
        """The answer to CountSlots."""
        if self._settings is None:
            return
        self._waits = False
        if event.slots is None:
            return
        if event.slots != self._slots:
            self._slots, self._since_ms = event.slots, self._job.now_ms
        if self._job.regions.all_running and self._rescaling.is_idle:
            self._grow(event.slots, self._settings)
            self._is_new = False

    def _shrink(self, slots: int) -> None:
        """It waits for its restart: with fewer subtasks, if the slots that it lacks do not come back."""
        assert self._settings is not None
        is_stable = self._job.now_ms - self._since_ms >= self._settings.stabilization_ms
        if is_stable and self._job.graph.slots > slots:
            graph = fitted(self._job.graph, self._most, slots)
            if graph.slots <= slots:
                self._rescaling.restart_with(graph)

    def _grow(self, slots: int, settings: SlotFollowingSettings) -> None:
        graph = fitted(self._job.graph, self._most, slots)
        before = sum(vertex.parallelism for vertex in self._job.graph.vertices)
        wanted = {vertex.id: vertex.parallelism for vertex in graph.vertices}
        if sum(wanted.values()) - before < settings.increase_min:
            self._more_since_ms = None
            return
        now_ms = self._job.now_ms
        if self._more_since_ms is None:
            # From the first of them: machines that come one by one must not put it off for ever.
            self._more_since_ms = now_ms
        is_stable = now_ms - self._more_since_ms >= settings.growth_stabilization_ms
        if now_ms >= self._grows_at_ms and (self._is_new or is_stable or wanted == self._most):
            self._rescaling.begin(wanted, None, self._told)

    def _told(self, text: str, error: PenstockError | None) -> None:
        assert self._settings is not None
        if error is not None:
            # Not at once again: what has kept the job from it may last.
            self._grows_at_ms = self._job.now_ms + self._settings.cooldown_ms
