"""The autoscaler of a job, if it has one: what it is told, and how its decisions are carried out.

    all tasks run        it measures
    it has a proposal    CountSlots: what can be done depends on the slots that there are now
    SlotsCounted         as much of it as fits is done as a user's request would be: rescaling.py

What is not done is said, with the reason, and not again before `job.autoscaler.scaling.event.interval` is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.common.errors import PenstockError
from penstock.engine.jobmaster.autoscaling.autoscaler import Autoscaler
from penstock.engine.jobmaster.autoscaling.decision import ScalingDecision
from penstock.engine.jobmaster.autoscaling.topology import topology_of
from penstock.engine.jobmaster.controlled_job import ControlledJob
from penstock.engine.jobmaster.effects import CountSlots, JobEffect
from penstock.engine.jobmaster.events import SlotsCounted
from penstock.engine.jobmaster.notices import Autoscaled
from penstock.engine.jobmaster.rescaling import JobRescaling
from penstock.engine.rpc.messages import TaskReport


class JobAutoscaling:
    """Of one job. `emit` takes its effects, in order."""

    def __init__(self, job: ControlledJob, rescaling: JobRescaling, emit: Callable[[JobEffect], None]) -> None:
        self.newest: Autoscaled | None = None
        """The newest decision by which the job was rescaled, or was to be."""
        self._job = job
        self._rescaling = rescaling
        self._emit = emit
        self._settings = job.settings.autoscaler
        self._autoscaler = Autoscaler(self._settings) if self._settings is not None else None
        self._runs = False
        self._proposed: ScalingDecision | None = None
        """Waits for the number of slots."""
        self._said_ms: int | None = None

    def all_run(self) -> None:
        """All tasks of the job run."""
        if self._autoscaler is not None and self._settings is not None:
            self._runs = True
            self._proposed = self._said_ms = None
            self._autoscaler.started(topology_of(self._job.graph, self._settings.excluded), self._job.now_ms)

    def reported(self, reports: Iterable[TaskReport]) -> None:
        """Subtasks of the present attempts have reported."""
        if self._autoscaler is not None:
            self._autoscaler.reported(reports, self._job.now_ms)

    def tick(self) -> None:
        """Something happened, or time has passed."""
        if self._autoscaler is None or not self._runs:
            return
        if not self._job.regions.all_running:
            self._runs = False
            self._autoscaler.stopped()
            return
        proposed = self._autoscaler.propose(self._job.now_ms)
        if proposed is None or self._proposed is not None or not self._rescaling.is_idle:
            return
        assert self._settings is not None
        if not proposed.vertices:
            self._not_done(proposed, "")
        elif not self._settings.is_scaling:
            self._not_done(proposed, "job.autoscaler.scaling.enabled is false")
        else:
            self._proposed = proposed
            self._emit(CountSlots())

    def slots_counted(self, event: SlotsCounted) -> None:
        """The answer to CountSlots."""
        proposed, self._proposed = self._proposed, None
        if proposed is None or self._autoscaler is None or not self._runs or not self._rescaling.is_idle:
            return
        if event.error:
            self._not_done(proposed, event.error)
            return
        free_slots = None if event.slots is None else max(0, event.slots - self._job.graph.slots)
        decision = self._autoscaler.decide(proposed, free_slots)
        if not decision.vertices:
            self._not_done(decision, "")
            return

        def told(text: str, error: PenstockError | None) -> None:
            if error is not None:
                self._refused(decision, error)

        self._tell(Autoscaled(decision, True))
        self._rescaling.begin(decision.parallelism, free_slots, told)

    def wake_at_ms(self) -> int | None:
        """When to measure."""
        return self._autoscaler.wake_at_ms() if self._autoscaler is not None else None

    def _refused(self, decision: ScalingDecision, error: PenstockError) -> None:
        assert self._autoscaler is not None
        # Not at once again: what has kept the job from it may last.
        self._autoscaler.starts_over(self._job.now_ms)
        self._tell(Autoscaled(decision, False, str(error)))

    def _not_done(self, decision: ScalingDecision, why: str) -> None:
        assert self._settings is not None
        if self._said_ms is None or self._job.now_ms - self._said_ms >= self._settings.say_again_ms:
            self._said_ms = self._job.now_ms
            self._tell(Autoscaled(decision, False, why))

    def _tell(self, notice: Autoscaled) -> None:
        self.newest = notice
        self._emit(notice)
