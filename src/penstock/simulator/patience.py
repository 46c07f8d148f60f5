"""Tells a job that is long from one that never ends."""

from __future__ import annotations

from penstock.runtime.task.events import Effect, Result

STEPS_MAX = 60_000
"""So many steps with hardly a result are a deadlock or a livelock."""
_RESULTS_LEAST = 1_000
_LONGEST = 10 * STEPS_MAX


class Patience:
    """Of one run. A job that fails again and again may have results each time, so it is bounded, too."""

    def __init__(self) -> None:
        self._ends_at = STEPS_MAX
        self._results = 0

    def reported(self, effect: Effect) -> None:
        """A task has reported something to the job master."""
        if isinstance(effect, Result):
            self._results += 1

    def check(self, steps: int) -> None:
        """Raises AssertionError if the job does not end."""
        if steps < self._ends_at:
            return
        goes_on = self._results >= _RESULTS_LEAST and steps < _LONGEST
        assert goes_on, f"after {steps} steps the job has not ended: deadlock or livelock"
        self._ends_at, self._results = steps + STEPS_MAX, 0
