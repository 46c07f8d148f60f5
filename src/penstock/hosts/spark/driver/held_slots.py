"""Which jobs of this process use its Spark session, and how many slots each of them holds.

Spark admits a query by capacity, not by free slots: the second of two jobs that don't fit side by side would start half
of its tasks and wait for ever. And a session that a job uses must not be stopped for another job.
"""

from __future__ import annotations

import itertools
import threading
from typing import NamedTuple, Protocol


class SharedSlots(Protocol):
    """Those of a Spark application that several processes use."""

    def want(self, slots: int) -> None:
        """Hold so many from now on, in this process. Raises NotEnoughSlotsError if others have them."""

    def free(self, held: int) -> int:
        """How many nobody holds; `held`: those of this process."""


class Holding(NamedTuple):
    """A running job. One in batch mode holds no slots: its tasks wait for each other."""

    name: str
    slots: int


class HeldSlots:
    """Of all jobs of this process, by job id."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held from the moment in which a session is chosen for a job until its slots are counted."""
        self._jobs: dict[str, Holding] = {}
        self.others: SharedSlots | None = None
        """None: this process has the application to itself."""

    def hold(self, job_id: str, name: str, slots: int) -> None:
        """A job is about to start, or to go on with other slots. Raises NotEnoughSlotsError if others have them."""
        with self.lock:
            before = self._jobs.get(job_id)
            self._jobs[job_id] = Holding(name, slots)
            if self.others is not None and (before is None or before.slots != slots):
                try:
                    self.others.want(self.total)
                except BaseException:
                    # What is refused is not held: the next attempt would believe it, and ask nobody.
                    if before is None:
                        del self._jobs[job_id]
                    else:
                        self._jobs[job_id] = before
                    raise

    def release(self, job_id: str) -> None:
        """A job has ended, or could not be started. May be called again."""
        with self.lock:
            self._jobs.pop(job_id, None)

    def ahead_of(self, job_id: str) -> int:
        """How many slots are held by jobs that came before this one: they get theirs first."""
        with self.lock:
            before = itertools.takewhile(lambda held: held[0] != job_id, self._jobs.items())
            return sum(job.slots for _, job in before)

    def beside(self, job_id: str) -> int:
        """How many slots are held by other jobs than this one."""
        with self.lock:
            return sum(held.slots for id, held in self._jobs.items() if id != job_id)

    @property
    def total(self) -> int:
        """How many slots are held."""
        with self.lock:
            return sum(job.slots for job in self._jobs.values())

    @property
    def is_used(self) -> bool:
        """Whether any job runs."""
        with self.lock:
            return bool(self._jobs)

    def __str__(self) -> str:
        with self.lock:
            return ", ".join(f"'{job.name}' ({job.slots})" for job in self._jobs.values())


HELD = HeldSlots()
