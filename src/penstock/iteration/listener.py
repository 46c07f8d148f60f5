"""IterationListener: functions in the body of an iteration that act when a superstep ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class IterationListener:
    """Base of process functions that act at the end of supersteps; derive from it and from a process function.

    Both methods may emit as `process_element` does: by `yield`, also to side outputs, or by a list. On a keyed stream
    they have no key, and no keyed state. Source: Flink's IterationListener (FLIP-176).
    """

    def on_epoch_watermark_incremented(self, epoch_watermark: int, context: Any) -> Iterable[Any] | None:
        """Act at the end of superstep `epoch_watermark` (from 0), when its timers have fired.

        What is emitted belongs to that superstep.
        """
        return None

    def on_iteration_terminated(self, context: Any) -> Iterable[Any] | None:
        """Act when the iteration has ended. What is emitted can leave it, but not be fed back."""
        return None
