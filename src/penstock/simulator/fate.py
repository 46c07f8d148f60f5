"""What befalls a job from outside, by its circumstances: crashes, aborts, and what its user asks for."""

from __future__ import annotations

from random import Random
from typing import Protocol

from penstock.simulator.circumstances import Circumstances

HEALED_AT_STEP = 4_000
"""From here on nothing fails any more: what goes on for ever now is a fault of the job's own."""


class Victim(Protocol):
    """Whom it befalls."""

    def cancel(self) -> None:
        """The user cancels the job."""

    def crash(self) -> None:
        """A worker is killed."""

    def freeze(self) -> None:
        """A worker is stopped without dying."""

    def crash_driver(self) -> None:
        """The driver is killed."""

    def trigger_checkpoint(self) -> int | None:
        """A checkpoint begins."""

    def take_savepoint(self) -> None:
        """The user asks for a savepoint."""

    def abort_newest(self) -> None:
        """The newest checkpoint under way is given up."""

    def heal(self) -> None:
        """Nothing fails any more."""


class Fate:
    """`befall` is called between any two events."""

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
        """What is due after so many events."""
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
        """A good moment for a crash: soon after it."""
        if self.chance(self._circumstances.crash_rate):
            self._crashes.insert(0, steps + self._random.choice([0, 5, 20, 60]))

    def stopping(self, steps: int) -> None:
        """The job stops with a savepoint that is complete: another good moment."""
        if self.chance(self._circumstances.stop_crash_rate):
            self._crashes.insert(0, steps + self._random.choice([0, 2, 5]))

    def chance(self, rate: float) -> bool:
        """Whether something fails that fails at this rate."""
        return rate > 0 and not self.healed and self._random.random() < rate


def _is_due(steps_left: list[int], steps: int) -> bool:
    if steps_left and steps_left[0] <= steps:
        steps_left.pop(0)
        return True
    return False
