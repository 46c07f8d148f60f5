"""Sends what was gathered for a channel, whatever the kind of its chunks: as one buffer, in sequence, counted.

The size of the last buffer predicts how many records fill the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import ChunkKind, EncodedColumns
from penstock.engine.runtime.network.buffer import (
    CODECS,
    NO_KEY_GROUP,
    BufferItem,
    CheckpointBarrier,
    Element,
    Header,
    content_bytes,
    content_of,
    encode,
)
from penstock.engine.runtime.network.debloating import COLUMN_ROWS_MAX
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.worth import IN_ROWS
from penstock.engine.runtime.task.budget import COLUMN_RECORDS_MAX, Budget
from penstock.engine.runtime.task.metrics import TaskCounters

if TYPE_CHECKING:
    from penstock.engine.runtime.task.context import OperatorContext

BUFFER_RECORDS_MAX = 4096
_GATHERED_RECORDS_MAX = 8192
"""Over all channels of an edge. With more records, the first have left the processor's caches when they are pickled,
which doubles the cost of a record (8 channels of 4,096 records: 2.4 MB)."""
_BUFFER_RECORDS_ENOUGH = 512
"""As many records are worth a row, even with many channels."""
_CHANNELS_OF_LARGE_BUFFERS = 4
"""With so many channels or fewer, buffers of columns are twice as large: a MB of rows of 256 KiB takes a fifth less CPU
time than one of rows of 128 KiB. Larger rows take more, and with more channels they would take memory in Spark's JVM,
which holds two for each. docs/internals/decisions/0047-bytes-of-an-exchange.md"""
_LARGE_BUFFER_RECORDS = 1 << 14
"""With more records a buffer is not made larger: arrays of more rows took a tenth more time in a keyed count."""
_OVERSIZE = 8
"""A buffer that is larger than intended by this factor is sent in parts: Spark keeps memory for the largest row."""


def full_records(channels: int) -> int:
    """Return how many records fill a buffer of an edge with `channels` channels, unless its bytes fill it earlier."""
    return min(BUFFER_RECORDS_MAX, max(_BUFFER_RECORDS_ENOUGH, _GATHERED_RECORDS_MAX // channels))


def full_bytes(kind: ChunkKind, channels: int, size: int) -> int:
    """Return how many bytes fill a buffer of an edge with `channels` channels. `size`: as BufferSize has it."""
    return 2 * size if kind is ChunkKind.COLUMNS and channels <= _CHANNELS_OF_LARGE_BUFFERS else size


class BufferSize(NamedTuple):
    """The size of buffers; `full_bytes` says when it is doubled.

    `records_first`: records of the first buffer, which shows how large records are.
    """

    bytes: int = 1 << 17
    records_first: int = 16


USUAL_BUFFERS = BufferSize()


class Outbox:
    """Rows that are ready to leave a slot: (slot of the next level, buffer).

    In the outbox for feedback: (index of the slot in the level of the edge's target, buffer).
    """

    __slots__ = ("_budget", "allows", "price", "rows", "sent")

    def __init__(self, budget: Budget) -> None:
        self.rows: list[tuple[int, bytes]] = []
        self.sent: dict[int, int] = {}
        """The content of all buffers so far, by slot (bytes)."""
        self.allows: Callable[[int, int], bool] = lambda slot, sent: True
        """Returns whether a slot may be sent more, after `sent` bytes."""
        self.price = IN_ROWS
        """The price of the bytes of rows (network/worth.py). A host that shares memory with all receivers lowers it."""
        self._budget = budget

    def put(self, slot: int, buffer: bytes) -> None:
        """Add a row."""
        self.rows.append((slot, buffer))
        sent = self.sent[slot] = self.sent.get(slot, 0) + content_bytes(buffer)
        if not self.allows(slot, sent):
            self._budget.end_step()
        # Output limits a step as well: a function that emits endlessly would fill memory with unsent rows.
        self._budget.output_bytes += len(buffer)

    def take(self) -> list[tuple[int, bytes]]:
        """Remove and return all rows."""
        rows, self.rows = self.rows, []
        return rows


class OutputChannel:
    """The items of the next buffer to one subtask (pipelined mode), or of one key group (batched mode)."""

    __slots__ = ("items", "key_group", "part", "records", "sequence", "target")

    def __init__(self, target: int, key_group: int = NO_KEY_GROUP) -> None:
        self.target = target
        self.key_group = key_group
        self.sequence = 0
        self.items: list[BufferItem] = []
        """Chunks that nothing is added to, and elements."""
        self.records = 0
        """How many records `items` hold."""
        self.part = 1.0
        """The size of its buffers, as a part of that of the edge: a slow target gets smaller ones than a fast one."""


class BufferSender:
    """The sender of an edge of one subtask, `index`, with `channels` channels.

    `sorts_rows`: its rows are sorted on their way, so a buffer holds the records of one key group.
    """

    def __init__(
        self,
        info: EdgeInfo,
        index: int,
        *,
        outbox: Outbox,
        budget: Budget,
        counters: TaskCounters,
        attempt: int,
        sorts_rows: bool,
        channels: int,
        size: BufferSize = USUAL_BUFFERS,
    ) -> None:
        self.info = info
        self.index = index
        self._outbox = outbox
        self.budget = budget
        self._counters = counters
        self._attempt = attempt
        self.sorts_rows = sorts_rows
        self._buffer_bytes = full_bytes(info.kind, channels, size.bytes)
        self._fill_bytes = content_of(self._buffer_bytes)
        self._has_large_buffers = self._buffer_bytes > size.bytes
        self._most_records = BUFFER_RECORDS_MAX if info.kind is ChunkKind.ROWS else COLUMN_RECORDS_MAX
        self._least_records = 1 if info.kind is ChunkKind.ROWS else COLUMN_ROWS_MAX
        self._full_records = self._most_records
        if info.kind is ChunkKind.ROWS and not sorts_rows:
            self._full_records = full_records(channels)
        """How many records fill a buffer, even if they are small."""
        self.records_max = size.records_first
        """How many records fill the next buffer, unless its channel has smaller ones."""
        self.items_sent = 0
        """Within a loop: how many chunks and elements, except barriers, this edge has sent."""
        self.operator: OperatorContext | None = None
        """The operator that emits the records, for errors."""
        self.record_bytes_max: int | None = None
        """The largest record (bytes, pickled); None: no limit."""

    def limit_buffers(self, size: int | None, column_rows: int = COLUMN_ROWS_MAX) -> None:
        """Send buffers when their content reaches `size` bytes; None: when they are full.

        Those of columns have at least `column_rows` records, unless the largest size of a buffer is reached.
        """
        if self.info.kind is not ChunkKind.ROWS:
            self._least_records = column_rows
        full_bytes = content_of(self._buffer_bytes)
        fill_bytes = full_bytes if size is None else min(size, full_bytes)
        if fill_bytes < self._fill_bytes:
            # Without this the next buffer would be as large as the last. Growth follows from the next buffer itself.
            smaller = self.records_max * fill_bytes // self._fill_bytes
            self.records_max = max(min(self._least_records, self.records_max), smaller)
        self._fill_bytes = fill_bytes

    def limit_channel(self, channel: OutputChannel, size: int | None) -> None:
        """Send the buffers of a channel when their content reaches `size` bytes; None: the size of the edge."""
        channel.part = 1.0 if size is None else min(1.0, size / self._fill_bytes)

    def records_of(self, channel: OutputChannel) -> int:
        """Return how many records fill the next buffer of a channel."""
        most = self.records_max
        return most if channel.part == 1.0 else max(min(self._least_records, most), int(most * channel.part), 1)

    def send(self, channel: OutputChannel) -> None:
        """Send the items of a channel, and clear them. The chunks must not be used afterwards."""
        info, items, records = self.info, channel.items, channel.records
        header = Header(
            channel.key_group,
            info.id,
            self.index,
            sequence=channel.sequence,
            target=channel.target,
            attempt=self._attempt,
            kind=info.kind,
        )
        try:
            buffer = encode(header, items, self._outbox.price)
        except RAISED as error:
            if self.operator is None:
                raise
            # Elements close chunks: the value may be in any chunk of the buffer.
            waiting = CODECS[info.kind].values(items)
            raise self.operator.pickling_error(error, "emit", waiting) from error
        if len(buffer) > _OVERSIZE * self._buffer_bytes and records > 1 and len(items) == 1:
            # Records are much larger than earlier ones.
            self._send_in_parts(channel, len(buffer))
            return
        if self.record_bytes_max is not None and len(buffer) > self.record_bytes_max:
            self._check_records(channel, self.record_bytes_max)
        if info.in_loop:
            self.items_sent += sum(type(item) is not CheckpointBarrier for item in items)
        items.clear()
        channel.records = 0
        channel.sequence += 1
        self._counters.bytes_out += len(buffer)
        self._counters.buffers_out += 1
        self._outbox.put(info.hop(info.source_level + 1, self.index, channel.target), buffer)
        if records:
            # Estimated from this buffer: measuring each record would mean pickling it twice.
            content = content_of(len(buffer)) if self.sorts_rows else content_bytes(buffer)
            fit = self._fill_bytes * records // content
            if self._has_large_buffers:
                fit = min(fit, max(fit // 2, _LARGE_BUFFER_RECORDS))
            fit = max(fit, min(self._least_records, self._buffer_bytes * records // content), 1)
            self.records_max = min(fit, self._full_records)
            self.budget.chunk_records = min(fit, self._most_records)

    def _check_records(self, channel: OutputChannel, bytes_max: int) -> None:
        """Raise UserFunctionError if a single record is too large. The sum of records may be larger."""
        assert self.operator is not None
        for value, size in CODECS[self.info.kind].sizes(channel.items):
            if size > bytes_max:
                # Without the value: its text would take several times its size in memory.
                raise self.operator.user_error(_too_large(value, size, bytes_max), "emit")

    def _send_in_parts(self, channel: OutputChannel, size: int) -> None:
        (chunk,) = channel.items
        assert not isinstance(chunk, (Element, EncodedColumns))
        count = len(chunk)
        fit = max(1, self._buffer_bytes * count // size)
        for start in range(0, count, fit):
            part = chunk.part(start, start + fit)
            channel.items[:] = [part]
            channel.records = len(part)
            self.send(channel)


def _too_large(value: object, size: int, bytes_max: int) -> ValueError:
    return ValueError(
        f"a record ({type(value).__name__}) has {size:,} bytes when it is pickled, and "
        f"penstock.network.max-record-size allows {bytes_max:,}. Spark's JVM takes about nine times that for it. Emit "
        "it in parts, or store it elsewhere and emit its location; or raise penstock.network.max-record-size, and set "
        "spark.driver.memory to ten times as much"
    )
