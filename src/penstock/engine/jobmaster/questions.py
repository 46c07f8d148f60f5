"""What users ask of the tasks of a running job. Nothing of it is recorded, and nothing else of the job waits for it."""

from __future__ import annotations

from collections.abc import Callable

from penstock.common.time.earliest import earliest
from penstock.engine.jobmaster.controlled_job import ControlledJob
from penstock.engine.jobmaster.effects import JobEffect
from penstock.engine.jobmaster.events import StacksRequested, StateReadRequested
from penstock.engine.jobmaster.stack_samples import StackSamples
from penstock.engine.jobmaster.state_reads import StateReads


class Questions:
    """Of one job. `emit` takes its effects, in order."""

    def __init__(self, job: ControlledJob, emit: Callable[[JobEffect], None]) -> None:
        self.reads = StateReads(job, emit)
        self.stacks = StackSamples(job, emit)

    def asked(self, event: StateReadRequested | StacksRequested) -> None:
        """A user asks."""
        if isinstance(event, StateReadRequested):
            self.reads.requested(event)
        else:
            self.stacks.requested(event)

    def go_on(self) -> None:
        """Something happened: what can't be answered any more is answered with the reason."""
        self.reads.go_on()
        self.stacks.go_on()

    def wake_at_ms(self) -> int | None:
        """When the first of those that are open is given up."""
        return earliest(self.reads.wake_at_ms(), self.stacks.wake_at_ms())
