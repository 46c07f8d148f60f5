"""Applies the external events of a job as its circumstances define: crashes, aborts, and requests of its user."""

from __future__ import annotations

from random import Random
from typing import Protocol

from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.user import User
from penstock.hosts.simulator.worker_faults import WorkerFaults

HEALED_AT_STEP = 4_000
"""Number of events after which no more faults occur: a job that does not end then is faulty itself."""


class FaultTarget(Protocol):
    """The job to which faults are applied."""

    def crash_driver(self) -> None:
        """Kill the driver."""

    def heal(self) -> None:
        """Stop all faults."""


class FaultSchedule:
    """Decides which faults and requests are due. Call `apply_due` between any two events."""

    def __init__(self, circumstances: Circumstances, random: Random) -> None:
        self.healed = False
        self._circumstances = circumstances
        self._random = random
        self._crashes = list(circumstances.crash_at_steps)
        self._freezes = list(circumstances.freeze_at_steps)
        self._cuts = list(circumstances.cut_at_steps)
        self._driver_crashes = list(circumstances.driver_crash_at_steps)
        self._checkpoints = list(circumstances.checkpoint_at_steps)
        self._savepoints = list(circumstances.savepoint_at_steps)
        self._rescales = list(circumstances.rescale_at_steps)
        self._updates = list(circumstances.update_at_steps)
        self._loads = list(circumstances.load_changes_at_steps)
        self._slots = list(circumstances.slots_change_at_steps)
        self._state_reads = list(circumstances.state_reads_at_steps)

    def apply_due(self, target: FaultTarget, workers: WorkerFaults, user: User, steps: int) -> None:
        """Apply the faults and requests that are due after this number of events."""
        if steps == self._circumstances.cancel_at_step:
            user.cancel()
        if steps >= HEALED_AT_STEP and not self.healed:
            self.healed = True
            target.heal()
        if _is_due(self._crashes, steps):
            workers.crash()
        if _is_due(self._freezes, steps) and not self.healed:
            workers.freeze()
        if _is_due(self._cuts, steps) and not self.healed:
            workers.cut()
        while _is_due(self._checkpoints, steps):
            user.trigger_checkpoint()
        while _is_due(self._savepoints, steps):
            user.take_savepoint()
        while _is_due(self._rescales, steps):
            user.rescale()
        while _is_due(self._updates, steps):
            user.update()
        while _is_due(self._loads, steps):
            workers.load.change()
        while _is_due(self._slots, steps) and not self.healed:
            workers.change_slots()
        while _is_due(self._state_reads, steps):
            user.read_state()
        if self.chance(self._circumstances.abort_rate):
            user.abort_newest()
        if _is_due(self._driver_crashes, steps):
            target.crash_driver()

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
