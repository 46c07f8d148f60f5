"""Edges within a structured iteration: an end of a superstep leaves at once, and says what the heads need to decide.

Between iterations only the end of the earlier one travels, apart from what is emitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.common.constants import MAX_TIMESTAMP
from penstock.engine.runtime.network.buffer import (
    BeginOfSuperstep,
    CheckpointBarrier,
    Element,
    EndOfData,
    EndOfSuperstep,
    Watermark,
)
from penstock.engine.runtime.network.output import OutputEdge
from penstock.engine.runtime.network.partitioners import Partitioner
from penstock.engine.runtime.network.sender import BufferSender
from penstock.engine.state.key_groups import KeyGroups

if TYPE_CHECKING:
    from penstock.engine.runtime.task.supersteps import Supersteps


class EndEdge(OutputEdge):
    """An edge to the heads of a later iteration: they learn when this one has ended, and nothing of its supersteps."""

    def element(self, element: Element) -> None:
        if type(element) in (CheckpointBarrier, EndOfData) or element == _END_OF_TIME:
            super().element(element)

    def element_to_one(self, element: Element, turn: int) -> None:
        """Drop the marker: latency is measured on the way of the records."""


_END_OF_TIME = Watermark(MAX_TIMESTAMP)


class SuperstepEdge(OutputEdge):
    """An edge to another task of the iteration. `carries`: whether it has the aggregates, which only one edge has."""

    def __init__(
        self,
        partitioner: Partitioner,
        sender: BufferSender,
        key_groups: KeyGroups,
        *,
        supersteps: Supersteps,
        carries: bool,
    ) -> None:
        super().__init__(partitioner, sender, key_groups)
        self.supersteps = supersteps
        self._carries = carries

    @property
    def holds_superstep(self) -> bool:
        return self.supersteps.holds_aggregates

    def element(self, element: Element) -> None:
        if type(element) is not Watermark or element.timestamp == MAX_TIMESTAMP:
            super().element(element)
            return
        steps = self.supersteps
        steps.passes(element.timestamp)
        plain = EndOfSuperstep(element.timestamp, checkpoint=steps.checkpoint, is_open=steps.is_open)
        first = plain
        if self._carries and (aggregates := steps.aggregates()):
            first = msgspec.structs.replace(plain, aggregates=aggregates)
        # On one channel, so that each value is counted once.
        self.end_superstep(lambda index: plain if index else first)

    def end_superstep(self, end: Callable[[int], EndOfSuperstep]) -> None:
        """Add an end to each channel, by its index, and send."""
        for index, channel in enumerate(self.gathering.channels):
            self.gathering.close_chunk(channel)
            channel.items.append(end(index))
        self.pending = True
        self.flush()


class SuperstepFeedbackEdge(SuperstepEdge):
    """An edge to the head of a structured iteration. It counts its records, and may send no more than their number."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        role = self.sender.info.role
        self._sends = role is not None and role.carries_records
        self._records = 0

    @property
    def holds_superstep(self) -> bool:
        return self._records > 0 or super().holds_superstep

    def emit(self, chunk: Any) -> bool:
        if self.supersteps.has_ended:
            # No superstep would have it: a timer or a listener emitted it at the end of the iteration.
            return True
        self._records += len(chunk)
        # The head gives records the number of their superstep.
        return super().emit(chunk.untimed()) if self._sends else True

    def element(self, element: Element) -> None:
        if type(element) is CheckpointBarrier:
            OutputEdge.element(self, element)
        elif type(element) is BeginOfSuperstep:
            OutputEdge.element(self, element)
            # Other heads wait for it.
            self.flush()
        elif type(element) is Watermark and element.timestamp < MAX_TIMESTAMP:
            steps = self.supersteps
            steps.passes(element.timestamp)
            aggregates = steps.aggregates() if self._carries else b""
            end = EndOfSuperstep(
                element.timestamp,
                self._records,
                aggregates=aggregates,
                checkpoint=steps.checkpoint,
                is_open=steps.is_open,
            )
            self._records = 0
            self.end_superstep(lambda index: end)

    def element_to_one(self, element: Element, turn: int) -> None:
        """Drop the marker: latency is measured up to here."""
