"""The head of an iteration: it merges its input and the feedback into one stream.

Only the input has watermarks: for event time, feedback counts as ended. Feedback in flight is part of a snapshot
(`task/feedback.py`). Source: Flink's StreamIterationHead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.engine.runtime.chunks import Chunk
from penstock.engine.runtime.operators.operator import Input, Operator
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import NamedList

if TYPE_CHECKING:
    from penstock.engine.runtime.network.channel_log import ChannelLog, LoggedBuffer

FEEDBACK = "(iteration) feedback"
"""Name of the state with the feedback in flight: see `network/channel_log.py`."""
INPUT, FED_BACK = 0, 1


class IterationHead(Operator):
    """Emits the records of both inputs. `max_wait_ms`: how long it waits for feedback at the end; 0: no limit."""

    def __init__(self, name: str, max_wait_ms: int) -> None:
        super().__init__(name)
        self.max_wait_ms = max_wait_ms
        self.log: ChannelLog | None = None
        """The log of the snapshot that is being frozen. It fills until the barrier has come back."""
        self.restored: list[LoggedBuffer] = []
        """The restored feedback of all subtasks."""

    def inputs(self) -> Sequence[Input]:
        return (self, self)

    def process(self, chunk: Chunk) -> bool:
        return self.output.emit(chunk)

    def lists(self) -> list[NamedList]:
        # A union: with another parallelism each subtask selects the records that the partitioner would send to it.
        log: Any = self.log
        return [] if log is None else [NamedList(FEEDBACK, Redistribution.UNION, log)]

    def restore_lists(self, lists: list[NamedList]) -> None:
        self.restored = [item for one in lists if one.name == FEEDBACK for item in one.items]
