"""Distinguishes long jobs from jobs that never end."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.runtime.task.events import Effect, Result

STEPS_MAX = 90_000
"""A job with so many steps and hardly a result is in a deadlock or livelock."""
STEPS_PER_RECORD = 30
"""More steps, for each record of the whole program: sinks with a committer and batched jobs have results at the end."""
_RESULTS_MIN = 1_000
_LIMITS_MAX = 13
"""A job with more than so many times the limit never ends, with or without results."""


class StepLimit:
    """Limits the steps of one run, also with results: a job that always fails may have results each time.

    `records` counts the records that all operators together emit; called only for long runs.
    """

    def __init__(self, records: Callable[[], int] = lambda: 0, steps: int = STEPS_MAX) -> None:
        self._records = records
        self._steps = steps
        self._ends_at = steps
        self._is_long = False
        self._results = 0

    def reported(self, effect: Effect) -> None:
        """Count the report of a task to the job master, if it is a result."""
        if isinstance(effect, Result):
            self._results += 1

    def check(self, steps: int) -> None:
        """Raise AssertionError if the job does not end."""
        if steps >= self._ends_at and not self._is_long:
            self._is_long = True
            self._ends_at += STEPS_PER_RECORD * self._records()
        if steps < self._ends_at:
            return
        may_continue = self._results >= _RESULTS_MIN and steps < _LIMITS_MAX * self._steps
        assert may_continue, f"after {steps} steps the job has not ended: deadlock or livelock"
        self._ends_at, self._results = steps + self._steps, 0
