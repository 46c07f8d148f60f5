"""External events of a job, as its circumstances define: crashes, aborts, and requests of its user."""

from __future__ import annotations

from random import Random
from typing import Protocol

from penstock.simulator.circumstances import Circumstances

HEALED_AT_STEP = 4_000
"""Number of events after which no more faults occur: a job that does not end then is faulty itself."""


class Victim(Protocol):
    """The job that the events happen to."""

    def cancel(self) -> None:
        """The user cancels the job."""

    def crash(self) -> None:
        """A worker is killed."""

    def freeze(self) -> None:
        """A worker is stopped without dying."""

    def crash_driver(self) -> None:
        """The driver is killed."""

    def trigger_checkpoint(self) -> int | None:
        """A checkpoint is triggered."""

    def take_savepoint(self) -> None:
        """The user triggers a savepoint."""

    def abort_newest(self) -> None:
        """The newest pending checkpoint is aborted."""

    def heal(self) -> None:
        """Faults end."""


class Fate:
    """Call `befall` between any two events."""

    def __init__(self, circumstances: Circumstances, random: Random) -> None:
        self.healed = False
        self._circumstances = circumstances
        self._random = random
        self._crashes = list(circumstances.crash_at_steps)
        self._freezes = list(circumstances.freeze_at_steps)
        self._driver_crashes = list(circumstances.driver_crash_at_steps)
        self._checkpoints = list(circumstances.checkpoint_at_steps)
        self._savepoints = list(circumstances.savepoint_at_steps)

    def befall(self, victim: Victim, steps: int) -> None:
        """Apply what is due after `steps` events."""
        if steps == self._circumstances.cancel_at_step:
            victim.cancel()
        if steps >= HEALED_AT_STEP and not self.healed:
            self.healed = True
            victim.heal()
        if _is_due(self._crashes, steps):
            victim.crash()
        if _is_due(self._freezes, steps) and not self.healed:
            victim.freeze()
        while _is_due(self._checkpoints, steps):
            victim.trigger_checkpoint()
        while _is_due(self._savepoints, steps):
            victim.take_savepoint()
        if self.chance(self._circumstances.abort_rate):
            victim.abort_newest()
        if _is_due(self._driver_crashes, steps):
            victim.crash_driver()

    def checkpoint_complete(self, steps: int) -> None:
        """Possibly schedule a crash soon after a checkpoint, where recovery is most delicate."""
        if self.chance(self._circumstances.crash_rate):
            self._crashes.insert(0, steps + self._random.choice([0, 5, 20, 60]))

    def stopping(self, steps: int) -> None:
        """Possibly schedule a crash while the job stops with a completed savepoint."""
        if self.chance(self._circumstances.stop_crash_rate):
            self._crashes.insert(0, steps + self._random.choice([0, 2, 5]))

    def chance(self, rate: float) -> bool:
        """Draw whether a fault of this rate occurs."""
        return rate > 0 and not self.healed and self._random.random() < rate


def _is_due(steps_left: list[int], steps: int) -> bool:
    if steps_left and steps_left[0] <= steps:
        steps_left.pop(0)
        return True
    return False
