"""Partitioners of feedback in structured iterations: each sender has a channel to each head, for ends of supersteps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.network.partitioners import ForwardPartitioner, Partitioner

if TYPE_CHECKING:
    from penstock.engine.runtime.columns.chunk import Columns


class WorksetForwardPartitioner(ForwardPartitioner):
    """Send records from subtask i to subtask i, and ends of supersteps to all: a superstep ends for all at once."""

    def targets(self, sender: int, senders: int, receivers: int) -> range:
        return range(receivers)

    def setup(self, channels: list[Any], sender: int) -> None:
        super().setup(channels, sender)
        self._own = channels[sender]

    def distribute(self, chunk: Rows) -> None:
        self._own.extend(chunk)

    def distribute_columns(self, chunk: Columns) -> None:
        self._own.extend(chunk)


class EndPartitioner(Partitioner):
    """Send no records: a later iteration learns from it when an earlier one has ended."""

    ship_strategy = "END"
    may_be_overtaken = False

    def distribute(self, chunk: Rows) -> None:
        """Drop the records."""


class CountPartitioner(Partitioner):
    """Send no records: another head gets them, and this one only their number."""

    ship_strategy = "COUNT"
    may_be_overtaken = False

    def distribute(self, chunk: Rows) -> None:
        """Drop the records."""
