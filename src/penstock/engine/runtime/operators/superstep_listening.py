"""Calls a user's function in the body of a structured iteration when a superstep ends, before the next operators.

Source: Flink's IterationListener (FLIP-176).
"""

from __future__ import annotations

from typing import Any

from penstock.common.constants import MAX_TIMESTAMP
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import NamedList

END_OF_SUPERSTEP = "on_epoch_watermark_incremented"
END_OF_ITERATION = "on_iteration_terminated"
ENDED = "(iteration) ended"
"""Name of the state that says that the listener was called for the end of the iteration."""


def is_listener(function: object) -> bool:
    """Return whether an object of a user's class listens to the ends of supersteps."""
    return hasattr(function, END_OF_SUPERSTEP) or hasattr(function, END_OF_ITERATION)


class _EndOfIteration:
    """Calls `on_iteration_terminated`, which has no argument but the context."""

    def __init__(self, adapted: Any) -> None:
        self.adapted = adapted

    def on_iteration_terminated(self, value: int, ctx: Any) -> Any:
        return self.adapted.on_iteration_terminated(ctx)


class SuperstepListening(Operator):
    """Mixin of process operators: `notify_listener` calls it, emits its results, and then the watermark."""

    listener: UserFunction | None = None
    """The function that listens; None if it does not, or is not in an iteration."""
    pending_watermark: int | None = None
    """The watermark that follows the listener's results: the number of the superstep, or MAX_TIMESTAMP."""
    is_notified = False
    """Whether the listener was called, and the watermark waits for the next operators of the chain."""
    _last: UserFunction | None = None
    _knows_end = False
    """Whether the listener was called for the end of the iteration, before a restored snapshot, or since."""

    def lists(self) -> list[NamedList]:
        known = [NamedList(ENDED, Redistribution.UNION, [True])] if self._knows_end else []
        return [*super().lists(), *known]

    def restore_lists(self, lists: list[NamedList]) -> None:
        super().restore_lists([one for one in lists if one.name != ENDED])
        self._knows_end = any(one.name == ENDED and one.items for one in lists)

    def find_listener(self, function: UserFunction) -> None:
        """Find out whether `function` listens."""
        instance = function.users_object
        if self.context.supersteps is None or function.is_plain:
            return
        if is_listener(instance):
            self.listener = UserFunction.of_object(instance, END_OF_SUPERSTEP)
            self._last = UserFunction.of_object(_EndOfIteration(instance), END_OF_ITERATION)

    def call_listener(self, chunk: Rows, function: UserFunction) -> bool:
        """Call `function` with the number in `chunk`, as with a record, and emit its results."""
        raise NotImplementedError

    def notify_listener(self, timestamp: int) -> bool:
        """Call the listener for the end of superstep `timestamp`, or with MAX_TIMESTAMP of the iteration."""
        function, method = (self._last, END_OF_ITERATION) if timestamp == MAX_TIMESTAMP else (
            self.listener, END_OF_SUPERSTEP
        )  # fmt: skip
        assert function is not None
        if self._knows_end or not hasattr(function.users_object, method):
            return self.output.watermark(timestamp)
        self._knows_end = timestamp == MAX_TIMESTAMP
        self.pending_watermark = timestamp
        times = None if timestamp == MAX_TIMESTAMP else [timestamp]
        return self.call_listener(Rows([timestamp], times), function)

    def finish_notification(self, may_continue: bool) -> bool:
        """Emit the watermark, or pause until the operators behind have taken the results."""
        if not may_continue:
            self.is_notified = self.paused = True
            return False
        return self.emit_pending_watermark()

    def emit_pending_watermark(self) -> bool:
        """Emit the watermark: the listener was called, and its results are taken."""
        timestamp, self.pending_watermark = self.pending_watermark, None
        self.is_notified = self.paused = False
        assert timestamp is not None
        return self.output.watermark(timestamp)
