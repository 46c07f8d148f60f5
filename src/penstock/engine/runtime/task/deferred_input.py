"""An input deep in a chain, which takes what it is given when the task resumes the chain.

Operators call each other, so a chain of thousands would be as deep in Python's stack, which ends at 1,000 calls. Each
operator whose depth is a multiple of `DEPTH_MAX` has such an input, and what is before it sees an operator that pauses
on each chunk (`operators/operator.py`, Pausing).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from penstock.engine.runtime.operators.operator import Input, Timestamps, Values

DEPTH_MAX = 50
"""Operators that call each other. An operator takes five to eight calls: at most 400 of 1,000, the rest is users'."""


class DeferredInput:
    """Stands before `input`. Chunks, watermarks and statuses reach it in the order in which they came."""

    waiting = False

    def __init__(self, input: Input) -> None:
        self._input = input
        self._calls: deque[Callable[[], bool]] = deque()
        self.paused = False
        """Whether it holds something."""

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        return self._defer(partial(self._input.process, values, timestamps))

    def watermark(self, timestamp: int) -> bool:
        return self._defer(partial(self._input.watermark, timestamp))

    def status(self, active: bool) -> bool:
        return self._defer(partial(self._input.status, active))

    def end_input(self) -> bool:
        """The chain ends inputs when nothing is deferred: at once."""
        return self._input.end_input()

    def _defer(self, call: Callable[[], bool]) -> bool:
        self._calls.append(call)
        self.paused = True
        return False

    def resume(self) -> bool:
        """Give what it holds to the input. False: still paused, or stop for now."""
        go_on, calls = True, self._calls
        while go_on and calls:
            go_on = calls.popleft()()
        self.paused = bool(calls)
        return go_on
