"""The head of an iteration: what comes in, and what comes back, in one stream.

Watermarks are those of the input alone: what is fed back counts as being at the end of time. What was in flight on the
way back when a snapshot was taken is part of it (`task/feedback.py`). Source: Flink's StreamIterationHead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.engine.runtime.operators.operator import Input, Operator, Timestamps, Values
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import NamedList

if TYPE_CHECKING:
    from penstock.engine.runtime.network.channel_log import ChannelLog, LoggedBuffer

FEEDBACK = "(iteration) feedback"
"""Name of the state with what was on its way back: see `network/channel_log.py`."""
INPUT, FED_BACK = 0, 1


class IterationHead(Operator):
    """Emits what it is given by either input. `max_wait_ms`: how long it waits for feedback at the end; 0: no limit."""

    def __init__(self, name: str, max_wait_ms: int) -> None:
        super().__init__(name)
        self.max_wait_ms = max_wait_ms
        self.log: ChannelLog | None = None
        """That of the snapshot which is being frozen. It fills until the barrier has come back."""
        self.restored: list[LoggedBuffer] = []
        """Of all subtasks."""

    def inputs(self) -> Sequence[Input]:
        return (self, self)

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        return self.output.emit(values, timestamps)

    def lists(self) -> list[NamedList]:
        # A union: after a change of parallelism each subtask takes what the feedback's partitioner would send it.
        own: Any = self.log
        return [] if own is None else [NamedList(FEEDBACK, Redistribution.UNION, own)]

    def restore_lists(self, lists: list[NamedList]) -> None:
        self.restored = [item for one in lists if one.name == FEEDBACK for item in one.items]
