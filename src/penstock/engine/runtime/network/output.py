"""Output edges of a subtask: chunks are gathered per channel, and sent in buffers when full or when they time out."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import ChunkKind, Rows, Values
from penstock.engine.runtime.network.buffer import CheckpointBarrier, Element
from penstock.engine.runtime.network.partitioners import Accumulator, Partitioner, channel_of_group
from penstock.engine.runtime.network.partitioning_error import partitioning_error
from penstock.engine.runtime.network.sender import BufferSender
from penstock.engine.state.key_groups import KeyGroups, subtask_of

if TYPE_CHECKING:
    from penstock.engine.runtime.columns.gathering import ColumnGathering

_BUFFERS_HELD_MAX = 512


class RowGathering:
    """The rows of an edge, gathered until the next buffer of `sender` is full.

    An accumulator gathers the records of one channel (pipelined mode), or of one key group (batched mode, so that a
    task can finish a group before the next).
    """

    def __init__(self, partitioner: Partitioner, sender: BufferSender, key_groups: KeyGroups) -> None:
        info = sender.info
        # A copy: a partitioner keeps state per edge, and one partitioning of the program may lead to several targets.
        self.partitioner = partitioner = copy.copy(partitioner)
        self._sender = sender
        self._timed: bool | None = None
        self._gathered = 0
        targets = partitioner.targets(sender.index, info.source_parallelism, info.target_parallelism)
        self.channels = [Accumulator(target) for target in targets]
        """For each subtask that may be sent to. Elements go to all of them."""
        self._accumulators = self.channels
        partitioner.setup(self.channels, sender.index)
        if partitioner.keyed:
            groups, parallelism = key_groups.max_parallelism, info.target_parallelism
            if sender.sorts_rows:
                self._accumulators = []
                accumulators = _GroupAccumulators(self._accumulators, groups, parallelism)
                # The partitioner caches keys already: a second cache in KeyGroups would be waste.
                partitioner.setup_groups(accumulators.__getitem__, KeyGroups(groups, cached_keys_max=0))
            else:
                partitioner.setup_groups(channel_of_group(self.channels, groups, parallelism), key_groups)

    def add(self, chunk: Rows) -> None:
        """Add a chunk, and send the buffers that it fills."""
        timed = chunk.timestamps is not None
        if timed is not self._timed:
            # A chunk has timestamps for all of its records or for no record, because its lists are parallel.
            for accumulator in self._accumulators:
                self.close_chunk(accumulator)
            self._timed = timed
        try:
            self.partitioner.distribute(chunk)
        except RAISED as error:
            if self._sender.operator is None:
                raise
            raise partitioning_error(self._sender.operator, self.partitioner, error, chunk.values) from error
        sender = self._sender
        records_max = sender.records_max
        for accumulator in self._accumulators:
            count = len(accumulator.values)
            # Nearly all channels have the edge's size: a call for each of them would cost a chunk of few rows much.
            if count >= records_max or (accumulator.part < 1.0 and count >= sender.records_of(accumulator)):
                self._send_full(accumulator)
        if self._sender.sorts_rows:
            # Bound the sum as well: there may be many key groups, each below the size of a buffer.
            self._gathered += len(chunk)
            if self._gathered >= _BUFFERS_HELD_MAX * records_max:
                self.flush()
                self._gathered = 0

    @property
    def records(self) -> int:
        """How many records wait for a full buffer or the timeout, without records before an element."""
        return sum(len(accumulator.values) for accumulator in self._accumulators)

    def close_chunk(self, accumulator: Accumulator) -> None:
        """Close the current chunk, and send the closed chunks if they fill a buffer."""
        accumulator.close_chunk()
        if accumulator.records >= self._sender.records_of(accumulator):
            self._sender.send(accumulator)

    def flush(self) -> None:
        """Send all waiting records and elements."""
        for accumulator in self._accumulators:
            if accumulator.values or accumulator.items:
                self._send(accumulator, accumulator.values, accumulator.timestamps)
                accumulator.values.clear()
                accumulator.timestamps.clear()

    def _send_full(self, accumulator: Accumulator) -> None:
        values, timestamps = accumulator.values, accumulator.timestamps
        start, end = 0, len(values)
        while end - start >= (records_max := self._sender.records_of(accumulator)):
            stop = start + records_max
            if start == 0 and stop == end:
                self._send(accumulator, values, timestamps)
            else:
                self._send(accumulator, values[start:stop], timestamps[start:stop])
            start = stop
        del values[:start]
        del timestamps[:start]

    def _send(self, accumulator: Accumulator, values: Values, timestamps: list[int]) -> None:
        # `values` is not copied: the caller clears it after the buffer is encoded.
        if values:
            accumulator.items.append(Rows(values, timestamps or None))
            accumulator.records += len(values)
        self._sender.send(accumulator)


class _GroupAccumulators(dict[int, Accumulator]):
    """key group -> its accumulator, created with the first record of the group, and appended to `created`."""

    def __init__(self, created: list[Accumulator], max_parallelism: int, parallelism: int) -> None:
        super().__init__()
        self._created = created
        self._max_parallelism = max_parallelism
        self._parallelism = parallelism

    def __missing__(self, group: int) -> Accumulator:
        accumulator = self[group] = Accumulator(subtask_of(group, self._max_parallelism, self._parallelism), group)
        self._created.append(accumulator)
        return accumulator


def _gathering(partitioner: Partitioner, sender: BufferSender, key_groups: KeyGroups) -> RowGathering | ColumnGathering:
    if sender.info.kind is not ChunkKind.COLUMNS:
        return RowGathering(partitioner, sender, key_groups)
    if sender.info.mixes_rows:
        from penstock.engine.runtime.columns.mixed_gathering import MixedGathering

        return MixedGathering(partitioner, sender, key_groups)
    from penstock.engine.runtime.columns.gathering import ColumnGathering

    return ColumnGathering(partitioner, sender, key_groups)


class OutputEdge:
    """An outgoing edge of one subtask. How it gathers chunks depends on their kind, how it sends them does not."""

    def __init__(self, partitioner: Partitioner, sender: BufferSender, key_groups: KeyGroups) -> None:
        self.info = sender.info
        self.sender = sender
        self.gathering: Any = _gathering(partitioner, sender, key_groups)
        self._budget = sender.budget
        self.pending = False
        """Whether records or elements wait to be sent."""

    @property
    def partitioner(self) -> Partitioner:
        """The partitioner of this subtask."""
        partitioner: Partitioner = self.gathering.partitioner
        return partitioner

    @property
    def holds_superstep(self) -> bool:
        """Whether it counts something of the superstep that runs, which a snapshot would not contain."""
        return False

    def emit(self, chunk: Any) -> bool:
        """Add a chunk, and send the buffers that it fills. False: the step's budget is used up."""
        self.gathering.add(chunk)
        self.pending = True
        return self._budget.output_bytes < self._budget.step_bytes

    def element(self, element: Element) -> None:
        """Add an element to every channel, after the records before it. It leaves with its buffer.

        Where rows are sorted, elements are dropped: they would lose their position.
        """
        if self.sender.sorts_rows:
            return
        for channel in self.gathering.channels:
            self.gathering.close_chunk(channel)
            channel.items.append(element)
        self.pending = True

    def element_to_one(self, element: Element, turn: int) -> None:
        """Add an element to one channel: a latency marker measures one path, at no cost to the others."""
        if self.sender.sorts_rows:
            return
        channels = self.gathering.channels
        channel = channels[turn % len(channels)]
        self.gathering.close_chunk(channel)
        channel.items.append(element)
        self.pending = True

    def limit_buffers(self, size_of: Callable[[int], int | None], column_rows: int) -> None:
        """Limit the buffers to each slot of the next level to the size (bytes) that `size_of` returns for it.

        None: to the largest. Those of columns have at least `column_rows` records, as far as that size allows.
        """
        info, sender, channels = self.info, self.sender, self.gathering.channels
        sizes = [size_of(info.hop(info.source_level + 1, sender.index, channel.target)) for channel in channels]
        limits = [size for size in sizes if size is not None]
        sender.limit_buffers(max(limits) if limits and len(limits) == len(sizes) else None, column_rows)
        for channel, size in zip(channels, sizes, strict=True):
            sender.limit_channel(channel, size)

    @property
    def targets(self) -> list[int]:
        """The subtasks that the edge may send to."""
        return [channel.target for channel in self.gathering.channels]

    def flush(self) -> None:
        """Send all waiting records and elements."""
        if self.pending:
            self.gathering.flush()
            self.pending = False


class FeedbackEdge(OutputEdge):
    """An edge back to the head of an iteration. The only elements on it are barriers.

    Event time is not fed back, and neither is the end of the data: the head ends before, when nothing is in flight.
    """

    def element(self, element: Element) -> None:
        if type(element) is CheckpointBarrier:
            super().element(element)

    def element_to_one(self, element: Element, turn: int) -> None:
        """Drop the marker: latency is measured up to here."""
