"""Adapt the number of subtasks of a job to the number of slots.

    more slots     The job takes a checkpoint and continues with more subtasks, when its tasks have run for the cooldown
                   and it can use no more slots, or additional slots have existed for the executing stabilization
                   timeout. A job that was just submitted uses all slots at once.
    fewer slots    Tasks in lost slots have failed. When the job is restarted, lacks slots, and their number has not
                   changed for the stabilization timeout, it continues with fewer subtasks.

A user's request for another parallelism sets the job's maximum; a reactive job refuses it. The number of slots is
requested once a second (CountSlots). Source: Flink docs, "Elastic Scaling"; FLIP-160, FLIP-291, FLIP-472.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.common.errors import JobError, PenstockError
from penstock.engine.jobmaster.controlled_job import ControlledJob
from penstock.engine.jobmaster.effects import CountSlots, JobEffect, Reply
from penstock.engine.jobmaster.events import RescaleRequested, SlotsCounted
from penstock.engine.jobmaster.rescaling import JobRescaling
from penstock.engine.jobmaster.settings import SlotFollowingSettings
from penstock.engine.plan.rescaling import fit_to_slots, max_subtasks

COUNT_EVERY_MS = 1_000


class SlotFollowing:
    """Follow the slots of one job. `emit` receives its effects, in order."""

    def __init__(self, job: ControlledJob, rescaling: JobRescaling, emit: Callable[[JobEffect], None]) -> None:
        self._job = job
        self._rescaling = rescaling
        self._emit = emit
        self._settings = job.settings.slot_following
        self._most = max_subtasks(job.graph, self._settings.reactive) if self._settings is not None else {}
        self._requested_ms: int | None = None
        """When the number of slots was last requested."""
        self._is_counting = False
        """Whether the answer is missing."""
        self._slots: int | None = None
        self._slots_since_ms = 0
        """Since when there have been that many slots."""
        self._grows_at_ms = job.now_ms
        """The earliest time to use more slots."""
        self._is_new = False
        """Whether it has just been submitted."""
        self._more_since_ms: int | None = None
        """Since when it could have more subtasks, or None."""

    def all_tasks_started(self) -> None:
        """Handle that all tasks of the job run."""
        if self._settings is not None:
            self._is_new = self._slots is None
            self._more_since_ms = None
            self._grows_at_ms = self._job.now_ms + (0 if self._is_new else self._settings.cooldown_ms)

    def rescale_requested(self, event: RescaleRequested) -> None:
        """Handle the user's request for another parallelism."""
        if self._settings is not None and self._settings.reactive:
            refusal = JobError(
                "the job is reactive: the number of slots determines its parallelism. Change the number of slots, or "
                "run the job without scheduler-mode: reactive"
            )
            self._emit(Reply(event.request, error=refusal))
            return
        # As the new maximum, or the next additional slots would undo the request.
        self._rescaling.requested(event, lambda: self._most.update(event.parallelism))

    def tick(self, is_restarting: bool) -> None:
        """Shrink the job or request the number of slots, if it is time. `is_restarting`: regions wait for a restart."""
        if self._settings is None or not (is_restarting or self._job.regions.all_running):
            return
        if is_restarting and self._slots is not None and not self._rescaling.is_closing:
            self._shrink(self._slots)
        wake_ms = self.wake_at_ms()
        if not self._is_counting and (wake_ms is None or self._job.now_ms >= wake_ms):
            self._requested_ms = self._job.now_ms
            self._is_counting = True
            self._emit(CountSlots())

    def wake_at_ms(self) -> int | None:
        """Return when to request the number of slots."""
        if self._settings is None or self._is_counting or self._requested_ms is None:
            return None
        return self._requested_ms + COUNT_EVERY_MS

    def slots_counted(self, event: SlotsCounted) -> None:
        """Handle the answer to CountSlots."""
        if self._settings is None:
            return
        self._is_counting = False
        if event.slots is None:
            return
        if event.slots != self._slots:
            self._slots, self._slots_since_ms = event.slots, self._job.now_ms
        if self._job.regions.all_running and self._rescaling.is_idle:
            self._grow(event.slots, self._settings)
            self._is_new = False

    def _shrink(self, slots: int) -> None:
        """Restart the job with fewer subtasks, if it lacks slots and their number is stable."""
        assert self._settings is not None
        is_stable = self._job.now_ms - self._slots_since_ms >= self._settings.stabilization_ms
        if is_stable and self._job.graph.slots > slots:
            graph = fit_to_slots(self._job.graph, self._most, slots)
            if graph.slots <= slots:
                self._rescaling.restart_with(graph)

    def _grow(self, slots: int, settings: SlotFollowingSettings) -> None:
        graph = fit_to_slots(self._job.graph, self._most, slots)
        before = sum(vertex.parallelism for vertex in self._job.graph.vertices)
        wanted = {vertex.id: vertex.parallelism for vertex in graph.vertices}
        if sum(wanted.values()) - before < settings.increase_min:
            self._more_since_ms = None
            return
        now_ms = self._job.now_ms
        if self._more_since_ms is None:
            # Counted from the first additional slot: machines that arrive one by one must not delay it forever.
            self._more_since_ms = now_ms
        is_stable = now_ms - self._more_since_ms >= settings.growth_stabilization_ms
        if now_ms >= self._grows_at_ms and (self._is_new or is_stable or wanted == self._most):
            self._rescaling.begin(wanted, None, self._rescale_ended)

    def _rescale_ended(self, text: str, error: PenstockError | None) -> None:
        assert self._settings is not None
        if error is not None:
            # Wait before the next try: the obstacle may last.
            self._grows_at_ms = self._job.now_ms + self._settings.cooldown_ms
