"""Output edges of a subtask: records gathered per channel, pickled into buffers when full or when they time out.

An accumulator gathers what goes to one channel (pipelined mode), or to one key group (batched mode, so that a task can
finish a group before the next). How many records fill a buffer is estimated from the size of the last one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.common.functions.script_functions import dumps
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.network.buffer import (
    CheckpointBarrier,
    Element,
    Header,
    Segment,
    content_bytes,
    content_of,
    encode,
)
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.partitioners import Accumulator, HashPartitioner, Partitioner
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.metrics import TaskCounters
from penstock.engine.state.key_groups import KeyGroups, subtask_of

if TYPE_CHECKING:
    from penstock.engine.runtime.task.context import OperatorContext

BUFFER_RECORDS_MAX = 4096
_GATHERED_RECORDS_MAX = 8192
"""Over all channels of an edge: what is gathered for longer has left the processor's caches when it is pickled, which
doubles what a record costs (8 channels of 4,096 records: 2.4 MB)."""
_BUFFER_RECORDS_ENOUGH = 512
"""So many are worth a row, however many channels there are."""
_OVERSIZE = 8
_BUFFERS_HELD_MAX = 512


def full_records(channels: int) -> int:
    """How many records fill a buffer of an edge with so many channels, if its size in bytes allows for them."""
    return min(BUFFER_RECORDS_MAX, max(_BUFFER_RECORDS_ENOUGH, _GATHERED_RECORDS_MAX // channels))


class BufferSize(NamedTuple):
    """How large buffers become. `records_first`: few, until the first buffer has shown how large records are."""

    bytes: int = 1 << 17
    records_first: int = 16


USUAL_BUFFERS = BufferSize()


class Outbox:
    """Rows that are ready to leave a slot: (slot of the next level, buffer).

    Of what is fed back: (index of the slot in the level of the edge's target, buffer).
    """

    __slots__ = ("_budget", "allows", "rows", "sent")

    def __init__(self, budget: Budget) -> None:
        self.rows: list[tuple[int, bytes]] = []
        self.sent: dict[int, int] = {}
        """Bytes in all, by slot: what the buffers bring."""
        self.allows: Callable[[int, int], bool] = lambda slot, sent: True
        """Whether more may be sent to a slot to which so much was sent."""
        self._budget = budget

    def put(self, slot: int, buffer: bytes) -> None:
        """Add a row."""
        self.rows.append((slot, buffer))
        sent = self.sent[slot] = self.sent.get(slot, 0) + content_bytes(buffer)
        if not self.allows(slot, sent):
            self._budget.end_step()
        # A step ends by its output, too: a function that never stops to emit would fill memory with unsent rows.
        self._budget.output_bytes += len(buffer)

    def take(self) -> list[tuple[int, bytes]]:
        """All rows so far; the outbox is empty then."""
        rows, self.rows = self.rows, []
        return rows


class OutputEdge:
    """One outgoing edge of one subtask."""

    def __init__(
        self,
        info: EdgeInfo,
        partitioner: Partitioner,
        sender: int,
        outbox: Outbox,
        budget: Budget,
        counters: TaskCounters,
        attempt: int,
        batched: bool,
        key_groups: KeyGroups,
        size: BufferSize = USUAL_BUFFERS,
    ) -> None:
        self.info = info
        # A copy, since it keeps state per edge, and one partitioning of the program may lead to several targets.
        self.partitioner = partitioner = copy.copy(partitioner)
        self._sender = sender
        self._outbox = outbox
        self._budget = budget
        self._counters = counters
        self._attempt = attempt
        self._batched = batched
        self._buffer_bytes = size.bytes
        self._fill_bytes = content_of(size.bytes)
        self._records_max = size.records_first
        self._timed: bool | None = None
        self.pending = False
        self.items_sent = 0
        """Within a loop: how many chunks of records, and elements but for barriers, have left by this edge."""
        self._held = 0
        self.operator: OperatorContext | None = None
        self.record_bytes_max: int | None = None
        """How large a record may be when it is pickled; None: without limit."""
        targets = partitioner.targets(sender, info.source_parallelism, info.target_parallelism)
        self._channels = [Accumulator(target) for target in targets]
        self._accumulators = self._channels
        self._full_records = BUFFER_RECORDS_MAX if batched else full_records(len(targets))
        """How many records fill a buffer, however small they are."""
        partitioner.setup(self._channels, sender)
        if isinstance(partitioner, HashPartitioner):
            if batched:
                self._accumulators = []
                groups = _GroupAccumulators(self._accumulators, key_groups.max_parallelism, info.target_parallelism)
                # The partitioner remembers keys, and nothing else here does: key groups need not remember them, too.
                forgetful = KeyGroups(key_groups.max_parallelism, cached_keys_max=0)
                partitioner.setup_groups(groups.__getitem__, forgetful)
            else:
                partitioner.setup_groups(self._channel_of_group(key_groups.max_parallelism), key_groups)

    def _channel_of_group(self, max_parallelism: int) -> Callable[[int], Accumulator]:
        channels, parallelism = self._channels, self.info.target_parallelism
        return lambda group: channels[subtask_of(group, max_parallelism, parallelism)]

    def emit(self, values: list[Any], timestamps: list[int] | None) -> bool:
        """Take a chunk; buffers that it fills go out at once."""
        timed = timestamps is not None
        if timed is not self._timed:
            # A segment has timestamps for all of its records or for none, as its lists are parallel.
            for accumulator in self._accumulators:
                self._close_segment(accumulator)
            self._timed = timed
        try:
            self.partitioner.distribute(values, timestamps)
        except RAISED as error:
            if self.operator is None:
                raise
            raise self._partitioning_error(error, values) from error
        records_max = self._records_max
        for accumulator in self._accumulators:
            if len(accumulator.values) >= records_max:
                self._flush_full(accumulator)
        self.pending = True
        if self._batched:
            # There may be many key groups, each below the size of a buffer: the sum is bounded, too.
            self._held += len(values)
            if self._held >= _BUFFERS_HELD_MAX * records_max:
                self.flush()
                self._held = 0
        return self._budget.output_bytes < self._budget.step_bytes

    def element(self, element: Element) -> None:
        """An element to every channel, after the records before it. It leaves with its buffer.

        Batched mode has none: rows are sorted there, so elements would lose their position.
        """
        if self._batched:
            return
        for channel in self._channels:
            self._close_segment(channel)
            channel.segments.append(element)
        self.pending = True

    def element_to_one(self, element: Element, turn: int) -> None:
        """An element to a single channel (a latency marker: it measures one path, at no cost to the others)."""
        if self._batched:
            return
        channel = self._channels[turn % len(self._channels)]
        self._close_segment(channel)
        channel.segments.append(element)
        self.pending = True

    def limit_buffers(self, size: int | None) -> None:
        """Let buffers leave when they bring this many bytes; None: when they are full."""
        full_bytes = content_of(self._buffer_bytes)
        fill_bytes = full_bytes if size is None else min(size, full_bytes)
        if fill_bytes < self._fill_bytes:
            # The next one would still be as large as the last. A larger size follows from the next one itself.
            self._records_max = max(1, self._records_max * fill_bytes // self._fill_bytes)
        self._fill_bytes = fill_bytes

    @property
    def targets(self) -> list[int]:
        """The subtasks that it may send to."""
        return [channel.target for channel in self._channels]

    @property
    def records_gathered(self) -> int:
        """How many records wait for their buffers to be full, or to time out. Not those before an element."""
        return sum(len(accumulator.values) for accumulator in self._accumulators)

    def flush(self) -> None:
        """Send everything that waits."""
        if not self.pending:
            return
        for accumulator in self._accumulators:
            if accumulator.values or accumulator.segments:
                self._send(accumulator, accumulator.values, accumulator.timestamps)
                accumulator.values.clear()
                accumulator.timestamps.clear()
        self.pending = False

    def _close_segment(self, accumulator: Accumulator) -> None:
        """An element, or records of the other kind, come next. What is closed may already fill a buffer."""
        accumulator.close_segment()
        if accumulator.closed_records >= self._records_max:
            self._send(accumulator, [], [])

    def _flush_full(self, accumulator: Accumulator) -> None:
        values, timestamps = accumulator.values, accumulator.timestamps
        start, end = 0, len(values)
        while end - start >= self._records_max:
            stop = start + self._records_max
            if start == 0 and stop == end:
                self._send(accumulator, values, timestamps)
            else:
                self._send(accumulator, values[start:stop], timestamps[start:stop])
            start = stop
        del values[:start]
        del timestamps[:start]

    def _send(self, accumulator: Accumulator, values: list[Any], timestamps: list[int]) -> None:
        segments = accumulator.segments
        records = accumulator.closed_records + len(values)
        # `values` is not copied: the caller clears it after the buffer is encoded.
        if values:
            segments.append((values, timestamps or None))
        info = self.info
        header = Header(
            accumulator.key_group, info.id, self._sender, accumulator.sequence, accumulator.target, self._attempt
        )
        try:
            buffer = encode(header, segments)
        except RAISED as error:
            if self.operator is None:
                raise
            # Elements close segments: the value may be in any of them.
            waiting = [value for segment in segments if isinstance(segment, tuple) for value in segment[0]]
            raise self.operator.pickling_error(error, "emit", waiting) from error
        if len(buffer) > _OVERSIZE * self._buffer_bytes and records > 1 and len(segments) == 1:
            # Records became much larger than those before, and Spark keeps memory for the largest row that it has seen.
            self._send_in_pieces(accumulator, len(buffer))
            return
        if self.record_bytes_max is not None and len(buffer) > self.record_bytes_max:
            self._check_records(segments, self.record_bytes_max)
        if info.in_loop:
            self.items_sent += sum(not isinstance(segment, CheckpointBarrier) for segment in segments)
        segments.clear()
        accumulator.closed_records = 0
        accumulator.sequence += 1
        self._counters.bytes_out += len(buffer)
        self._counters.buffers_out += 1
        self._outbox.put(info.hop(info.source_level + 1, self._sender, accumulator.target), buffer)
        if records:
            # Estimated from this buffer: measuring each record would mean to pickle it twice.
            content = content_of(len(buffer)) if self._batched else content_bytes(buffer)
            fit = self._fill_bytes * records // content or 1
            self._records_max = min(fit, self._full_records)
            self._budget.chunk_records = min(fit, BUFFER_RECORDS_MAX)

    def _check_records(self, segments: list[Segment], bytes_max: int) -> None:
        """Raises UserFunctionError if a record is too large, and not only all of them together."""
        assert self.operator is not None
        for value in (value for segment in segments if isinstance(segment, tuple) for value in segment[0]):
            size = len(dumps(value))
            if size > bytes_max:
                # Without the value: its text would take several times its size once more.
                raise self.operator.user_error(_too_large(value, size, bytes_max), "emit")

    def _send_in_pieces(self, accumulator: Accumulator, size: int) -> None:
        ((values, timestamps),) = accumulator.segments  # type: ignore[misc]
        accumulator.segments.clear()
        accumulator.closed_records = 0
        fit = max(1, self._buffer_bytes * len(values) // size)
        for start in range(0, len(values), fit):
            stop = start + fit
            self._send(accumulator, values[start:stop], timestamps[start:stop] if timestamps is not None else [])

    def _partitioning_error(self, error: BaseException, values: list[Any]) -> Exception:
        assert self.operator is not None
        method = "key selector" if self.partitioner.keyed else "partitioner"
        for value in values:
            # The loop that failed keeps no position, for speed. Selectors have no side effects: call them again.
            try:
                self.partitioner.probe(value)
            except RAISED as found:
                # A key that is a list fails in the loop as "unhashable"; the probe says what can be a key.
                _without_context(found, error)
                return self.operator.user_error(found, method, value)
        return self.operator.user_error(error, method)


def _too_large(value: object, size: int, bytes_max: int) -> ValueError:
    return ValueError(
        f"a record ({type(value).__name__}) has {size:,} bytes when it is pickled, and "
        f"penstock.network.max-record-size allows {bytes_max:,}. Spark's JVM takes about nine times that for it. Emit "
        "it in parts, or store it elsewhere and emit where it is; or set penstock.network.max-record-size, and "
        "spark.driver.memory to ten times as much"
    )


def _without_context(error: BaseException, first: BaseException) -> None:
    """`error` was raised where `first` was handled; to a user that is the same error, twice."""
    while error.__context__ is not None:
        if error.__context__ is first:
            error.__context__ = None
            return
        error = error.__context__


class FeedbackEdge(OutputEdge):
    """An edge back to the head of an iteration. Of elements it carries barriers only: event time is not fed back.

    Nor is the end of the data: the head ends before, when nothing is in flight any more.
    """

    def element(self, element: Element) -> None:
        if isinstance(element, CheckpointBarrier):
            super().element(element)

    def element_to_one(self, element: Element, turn: int) -> None:
        """Latency is measured up to here."""


class _GroupAccumulators(dict[int, Accumulator]):
    """key group -> its accumulator, made when the group is first seen."""

    def __init__(self, made: list[Accumulator], max_parallelism: int, parallelism: int) -> None:
        super().__init__()
        self._made = made
        self._max_parallelism = max_parallelism
        self._parallelism = parallelism

    def __missing__(self, group: int) -> Accumulator:
        accumulator = self[group] = Accumulator(subtask_of(group, self._max_parallelism, self._parallelism), group)
        self._made.append(accumulator)
        return accumulator
