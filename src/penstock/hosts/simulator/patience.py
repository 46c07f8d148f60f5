"""Tells a job that is long from one that never ends."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.runtime.task.events import Effect, Result

STEPS_MAX = 90_000
"""So many steps with hardly a result are a deadlock or a livelock."""
STEPS_PER_RECORD = 30
"""On top, for the records of the whole program: sinks with a committer and batched jobs have results at their end."""
_RESULTS_LEAST = 1_000
_LONGEST = 13
"""Times the patience of a run: a job with more steps never ends, whatever its results."""


class Patience:
    """Of one run. A job that fails again and again may have results each time, so it is bounded, too.

    `records`: counts those that all operators together give; called when a run is long.
    """

    def __init__(self, records: Callable[[], int] = lambda: 0, steps: int = STEPS_MAX) -> None:
        self._records = records
        self._steps = steps
        self._ends_at = steps
        self._is_long = False
        self._results = 0

    def reported(self, effect: Effect) -> None:
        """A task has reported something to the job master."""
        if isinstance(effect, Result):
            self._results += 1

    def check(self, steps: int) -> None:
        """Raises AssertionError if the job does not end."""
        if steps >= self._ends_at and not self._is_long:
            self._is_long = True
            self._ends_at += STEPS_PER_RECORD * self._records()
        if steps < self._ends_at:
            return
        goes_on = self._results >= _RESULTS_LEAST and steps < _LONGEST * self._steps
        assert goes_on, f"after {steps} steps the job has not ended: deadlock or livelock"
        self._ends_at, self._results = steps + self._steps, 0
