"""Connect a job to its autoscaler, if it has one, and carry out its decisions.

    all tasks run                 The autoscaler measures.
    the autoscaler proposes       CountSlots: the possible changes depend on the number of slots.
    SlotsCounted                  The part that fits is carried out like a user's request (rescaling.py).

A decision that is not carried out is logged with the reason, once per `job.autoscaler.scaling.event.interval`.
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
    """Scale one job automatically. `emit` receives its effects, in order."""

    def __init__(self, job: ControlledJob, rescaling: JobRescaling, emit: Callable[[JobEffect], None]) -> None:
        self.newest: Autoscaled | None = None
        """The newest decision, carried out or not."""
        self._job = job
        self._rescaling = rescaling
        self._emit = emit
        self._settings = job.settings.autoscaler
        self._autoscaler = Autoscaler(self._settings) if self._settings is not None else None
        self._runs = False
        self._proposed: ScalingDecision | None = None
        """A proposal that waits for the number of slots."""
        self._noted_ms: int | None = None
        """When a decision that was not carried out was last noted."""

    def all_tasks_started(self) -> None:
        """Begin to measure: all tasks of the job run."""
        if self._autoscaler is not None and self._settings is not None:
            self._runs = True
            self._proposed = self._noted_ms = None
            self._autoscaler.started(topology_of(self._job.graph, self._settings.excluded), self._job.now_ms)

    def reported(self, reports: Iterable[TaskReport]) -> None:
        """Pass reports of subtasks to the autoscaler."""
        if self._autoscaler is not None:
            self._autoscaler.reported(reports, self._job.now_ms)

    def tick(self) -> None:
        """Make a proposal, if it is time."""
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
        """Carry out the part of the proposal that fits. Handle the answer to CountSlots."""
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

        def ended(text: str, error: PenstockError | None) -> None:
            if error is not None:
                self._refused(decision, error)

        self._note(Autoscaled(decision, True))
        self._rescaling.begin(decision.parallelism, free_slots, ended)

    def wake_at_ms(self) -> int | None:
        """Return when the next sample is due, or None."""
        return self._autoscaler.wake_at_ms() if self._autoscaler is not None else None

    def _refused(self, decision: ScalingDecision, error: PenstockError) -> None:
        assert self._autoscaler is not None
        # Wait before the next proposal: the obstacle may last.
        self._autoscaler.restart_measuring(self._job.now_ms)
        self._note(Autoscaled(decision, False, str(error)))

    def _not_done(self, decision: ScalingDecision, why: str) -> None:
        assert self._settings is not None
        if self._noted_ms is None or self._job.now_ms - self._noted_ms >= self._settings.event_interval_ms:
            self._noted_ms = self._job.now_ms
            self._note(Autoscaled(decision, False, why))

    def _note(self, notice: Autoscaled) -> None:
        self.newest = notice
        self._emit(notice)
