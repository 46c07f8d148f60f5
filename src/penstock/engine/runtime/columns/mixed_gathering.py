"""Gathers the chunks of an edge that carries columns, and rows where these are not columns, in their order."""

from __future__ import annotations

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.columns.accumulator import ColumnAccumulator
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.gathering import ColumnGathering
from penstock.engine.runtime.network.partitioners import Accumulator, Partitioner, channel_of_group
from penstock.engine.runtime.network.partitioning_error import partitioning_error
from penstock.engine.runtime.network.sender import BufferSender
from penstock.engine.state.key_groups import KeyGroups


class MixedGathering(ColumnGathering):
    """A channel gathers either columns or rows: those of one kind are closed when the other comes."""

    def __init__(self, partitioner: Partitioner, sender: BufferSender, key_groups: KeyGroups) -> None:
        super().__init__(partitioner, sender, key_groups)
        self._rows = {channel.target: Accumulator(channel.target) for channel in self.channels}
        """Target -> the rows that are gathered for it."""
        self._rows_timed: bool | None = None
        info = sender.info
        route = channel_of_group(list(self._rows.values()), info.target_max_parallelism, info.target_parallelism)
        self.partitioner.setup_groups(route, key_groups)

    def add(self, chunk: Columns | Rows) -> None:
        if isinstance(chunk, Rows):
            self._add_rows(chunk)
            return
        for channel in self.channels:
            self._close_rows(channel)
        super().add(chunk)

    def _add_rows(self, chunk: Rows) -> None:
        timed = chunk.timestamps is not None
        for channel in self.channels:
            channel.close_chunk()
            if timed is not self._rows_timed:
                self._close_rows(channel)
        self._rows_timed = timed
        try:
            self.partitioner.distribute(chunk)
        except RAISED as error:
            if self._sender.operator is None:
                raise
            raise partitioning_error(self._sender.operator, self.partitioner, error, chunk.values) from error
        for channel in self.channels:
            if channel.records + len(self._rows[channel.target].values) >= self._sender.records_of(channel):
                self.close_chunk(channel)

    @property
    def records(self) -> int:
        return super().records + sum(len(rows.values) for rows in self._rows.values())

    def close_chunk(self, channel: ColumnAccumulator) -> None:
        self._close_rows(channel)
        super().close_chunk(channel)

    def flush(self) -> None:
        for channel in self.channels:
            self._close_rows(channel)
        super().flush()

    def _close_rows(self, channel: ColumnAccumulator) -> None:
        rows = self._rows[channel.target]
        if rows.values:
            rows.close_chunk()
            channel.items += rows.items
            channel.records += rows.records
            rows.items.clear()
            rows.records = 0
