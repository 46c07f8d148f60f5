"""Gathers the columns of an edge until the next buffer is full."""

from __future__ import annotations

import copy
from typing import Any

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.columns.accumulator import ColumnAccumulator
from penstock.engine.runtime.columns.chunk import Columns, read_schema
from penstock.engine.runtime.columns.few_rows import FEW_ROWS, reader_of_few
from penstock.engine.runtime.network.partitioners import Partitioner
from penstock.engine.runtime.network.sender import BufferSender
from penstock.engine.state.key_groups import KeyGroups


class ColumnGathering:
    """The columns of an edge, gathered until the next buffer of `sender` is full. Only in pipelined mode."""

    def __init__(self, partitioner: Partitioner, sender: BufferSender, key_groups: KeyGroups) -> None:
        info = sender.info
        # A copy: a partitioner keeps state per edge, and one partitioning of the program may lead to several targets.
        self.partitioner = partitioner = copy.copy(partitioner)
        self._sender = sender
        self._timed: bool | None = None
        assert info.schema is not None
        self._event_time_field = info.event_time_field
        schema = read_schema(info.schema)
        self._few = reader_of_few(schema)
        self._names = schema.names
        """The columns that the receiver reads. The others are not sent."""
        targets = partitioner.targets(sender.index, info.source_parallelism, info.target_parallelism)
        self.channels = [ColumnAccumulator(target) for target in targets]
        """For each subtask that may be sent to. Elements go to all of them."""
        partitioner.setup(self.channels, sender.index)
        partitioner.setup_columns(info, key_groups)

    def add(self, chunk: Columns) -> None:
        """Add a chunk, and send the buffers that it fills."""
        few = self._few(chunk) if self._few is not None and len(chunk) <= FEW_ROWS else None
        if few is not None:
            chunk = few
        elif chunk.batch.num_columns > len(self._names):
            chunk = chunk.with_batch(chunk.batch.select(self._names))
        if self._event_time_field is not None:
            # The receiver takes the timestamps from the column.
            chunk = chunk.untimed()
        timed = chunk.timestamps is not None
        if timed is not self._timed:
            for channel in self.channels:
                self.close_chunk(channel)
            self._timed = timed
        try:
            self.partitioner.distribute_columns(chunk)
        except RAISED as error:
            if self._sender.operator is None:
                raise
            raise self._partitioning_error(error, chunk) from error
        for channel in self.channels:
            if channel.waiting >= self._sender.records_of(channel):
                self._send_full(channel)

    @property
    def records(self) -> int:
        """How many records wait for a full buffer or the timeout, without records before an element."""
        return sum(channel.waiting for channel in self.channels)

    def close_chunk(self, channel: ColumnAccumulator) -> None:
        """Close the current chunk, and send the closed chunks if they fill a buffer."""
        channel.close_chunk()
        if channel.records >= self._sender.records_of(channel):
            self._sender.send(channel)

    def flush(self) -> None:
        """Send all waiting records and elements."""
        for channel in self.channels:
            channel.close_chunk()
            if channel.items:
                self._sender.send(channel)

    def _send_full(self, channel: ColumnAccumulator) -> None:
        columns = channel.take()
        start, end = 0, len(columns)
        while end - start >= (records_max := self._sender.records_of(channel)):
            stop = start + records_max
            channel.append_chunk(columns.part(start, stop))
            self._sender.send(channel)
            start = stop
        if start < end:
            channel.extend(columns.part(start))

    def _partitioning_error(self, error: BaseException, chunk: Columns) -> Exception:
        operator: Any = self._sender.operator
        for row in range(len(chunk)):
            try:
                self.partitioner.probe_columns(chunk.part(row, row + 1))
            except RAISED as found:
                return operator.user_error(found, "key selector", chunk.batch.slice(row, 1).to_pylist()[0])  # type: ignore[no-any-return]
        return operator.user_error(error, "key selector")  # type: ignore[no-any-return]
