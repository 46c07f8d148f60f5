"""What the parts of a job master share: the present attempt, the checkpoints, and how a failure is raised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.jobmaster.attempt import Attempt
from penstock.runtime.ids import SlotId


class ControlledJob(Protocol):
    """A job master, as its parts see it."""

    now_ms: int

    @property
    def attempt(self) -> Attempt:
        """The present attempt."""

    @property
    def coordinator(self) -> CheckpointCoordinator:
        """The checkpoints of the job."""

    def fail(self, error: BaseException, slot: SlotId | None = None) -> None:
        """The attempt fails; `slot`: the one that failed."""

    def guarded(self, do: Callable[[], object]) -> bool:
        """Call what may run users' code: an error there fails the attempt. True: there was none."""
