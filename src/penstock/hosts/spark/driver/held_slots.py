"""The slots that jobs of this process hold in its Spark session.

Spark admits a query by capacity, not by free slots: if two jobs do not fit together, the second one would start some of
its tasks and wait forever. Also, penstock must not stop a session for a job while another job uses it.
"""

from __future__ import annotations

import itertools
import threading
from typing import NamedTuple, Protocol


class SharedSlots(Protocol):
    """The slots of a Spark application that several processes share."""

    def reserve(self, slots: int) -> None:
        """Reserve `slots` slots in total for this process. Raises NotEnoughSlotsError if other processes hold them."""

    def free(self, held: int) -> int:
        """Return how many slots are free. `held`: the number that this process holds."""


class Holding(NamedTuple):
    """The slots of a running job. A job in batch mode holds no slots, since its tasks can wait for each other."""

    name: str
    slots: int


class HeldSlots:
    """Count the slots that the jobs of this process hold, by job id."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held from the selection of a session for a job until the job holds its slots."""
        self._jobs: dict[str, Holding] = {}
        self.shared: SharedSlots | None = None
        """Slots that other processes use as well; None: only this process uses the Spark application."""

    def hold(self, job_id: str, name: str, slots: int) -> None:
        """Hold slots for a job that is about to start, or to continue with another number of slots.

        Raises NotEnoughSlotsError if other processes hold them.
        """
        with self.lock:
            previous = self._jobs.get(job_id)
            self._jobs[job_id] = Holding(name, slots)
            if self.shared is not None and (previous is None or previous.slots != slots):
                try:
                    self.shared.reserve(self.total)
                except BaseException:
                    # Restore the previous number: with the new one, the next attempt would not reserve slots.
                    if previous is None:
                        del self._jobs[job_id]
                    else:
                        self._jobs[job_id] = previous
                    raise

    def release(self, job_id: str) -> None:
        """Release the slots of a job that has ended, or did not start. May be called again."""
        with self.lock:
            self._jobs.pop(job_id, None)

    def held_before(self, job_id: str) -> int:
        """Return how many slots earlier jobs hold, which get their slots first."""
        with self.lock:
            earlier = itertools.takewhile(lambda held: held[0] != job_id, self._jobs.items())
            return sum(job.slots for _, job in earlier)

    def held_by_others(self, job_id: str) -> int:
        """Return how many slots the other jobs hold."""
        with self.lock:
            return sum(held.slots for id, held in self._jobs.items() if id != job_id)

    @property
    def total(self) -> int:
        """Return how many slots all jobs hold."""
        with self.lock:
            return sum(job.slots for job in self._jobs.values())

    @property
    def is_used(self) -> bool:
        """Return whether a job runs."""
        with self.lock:
            return bool(self._jobs)

    def __str__(self) -> str:
        with self.lock:
            return ", ".join(f"'{job.name}' ({job.slots})" for job in self._jobs.values())


HELD_SLOTS = HeldSlots()
