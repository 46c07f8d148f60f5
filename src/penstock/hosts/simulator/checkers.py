"""Invariants of every run and program, asserted after each event.

TaskChecks       `Task.check()`, and the order of a task's effects
ChannelChecks    per channel: sequence numbers, ascending watermarks, nothing after the end, no late record if the
program allows none, and no record lost or duplicated in transit
CutChecks        per checkpoint: the records a task had read when it took its snapshot are the records that its senders
sent before the barrier. For an unaligned checkpoint, logged records count as read. In AT_LEAST_ONCE mode, except for
savepoints, a task may have read more
"""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.chunks import EncodedColumns, Rows
from penstock.engine.runtime.columns.codec import decoder
from penstock.engine.runtime.columns.stored_chunks import stored_chunks
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.network.buffer import (
    OUTCOME_EDGE,
    BeginOfSuperstep,
    CheckpointBarrier,
    EndOfData,
    EndOfSuperstep,
    Header,
    Watermark,
    WatermarkStatus,
    decode_header,
    decode_items,
)
from penstock.engine.runtime.network.channel_log import STREAM_START, ChannelLog
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.task.events import Acknowledge, DataEnded, Effect, Finished, Result, WriteSnapshot
from penstock.engine.runtime.task.slot import Slot
from penstock.engine.runtime.task.snapshot import TaskSnapshot
from penstock.engine.runtime.task.task import Task

SentChannel = tuple[int, int, int]
"""(edge, sender, target): a channel as its sender names it; the receiver's ChannelId has no target."""
_BOUND_MAX = 10_000_000


def _records_in(stored: bytes) -> int:
    """Return the number of records in a stored buffer, of rows or columns."""
    if stored.startswith(STREAM_START):
        return sum(map(len, stored_chunks(stored)))
    return sum(len(item[0]) for item in pickle.loads(stored))


class TaskChecks:
    """The order of a task's effects: results and acknowledgements, then DataEnded once, then Finished once."""

    def __init__(self, collecting: frozenset[int]) -> None:
        """`collecting`: the sinks whose results go to the program."""
        self._collecting = collecting
        self._ended: set[tuple[int, int]] = set()
        self._finished: set[tuple[int, int]] = set()
        self._acknowledged: set[tuple[int, int, int]] = set()

    def after_event(self, slot: Slot) -> None:
        """Check the tasks between two events."""
        for task in slot.tasks.values():
            task.check()

    def effect(self, effect: Effect) -> None:
        """Check an effect of a task."""
        subtask = (effect.vertex, effect.subtask)
        assert subtask not in self._finished, f"{effect} of a task that is finished"
        if isinstance(effect, Finished):
            self._finished.add(subtask)
        elif isinstance(effect, DataEnded):
            assert subtask not in self._ended, f"{effect} for the second time"
            self._ended.add(subtask)
        elif isinstance(effect, Result):
            # A sink sends prepared output when the job has ended, if no savepoint has taken it.
            is_prepared = effect.sink_id not in self._collecting
            assert subtask not in self._ended or is_prepared, f"{effect} after the end of the data"
        elif isinstance(effect, Acknowledge):
            assert (*subtask, effect.checkpoint_id) not in self._acknowledged, f"{effect} for the second time"
            self._acknowledged.add((*subtask, effect.checkpoint_id))


class _ChannelState:
    __slots__ = ("active", "barriers", "cuts", "ended", "records", "sequence", "watermark")

    def __init__(self) -> None:
        self.sequence = 0
        self.watermark = MIN_TIMESTAMP
        self.ended = False
        self.records = 0
        self.active = True
        self.barriers: dict[int, int] = {}
        """checkpoint -> records sent before its barrier"""
        self.cuts: dict[int, int] = {}
        """checkpoint -> records that the sender had produced for this channel at its snapshot"""


class ChannelChecks:
    """Inspects each buffer that leaves a task. `exact_time`: no record of the program may be late."""

    def __init__(self, edges: dict[int, EdgeInfo], exact_time: bool, batched: bool) -> None:
        self._edges = edges
        self._exact_time = exact_time
        self._batched = batched
        self._channels: dict[SentChannel, _ChannelState] = defaultdict(_ChannelState)
        self._under_way: Counter[bytes] = Counter()

    def sent(self, row: bytes, level: int) -> None:
        """Check a row that leaves a slot of `level`: sent by a task of that level, or relayed."""
        self._under_way[row] += 1
        header = decode_header(row)
        if header.edge == OUTCOME_EDGE or self._edges[header.edge].source_level != level:
            return
        channel = (header.edge, header.sender, header.target)
        state = self._channels[channel]
        if not self._batched:
            assert header.sequence == state.sequence, (
                f"channel {channel}: sent {header.sequence} as no {state.sequence}"
            )
            state.sequence += 1
        for item in decode_items(row):
            self._look_at(channel, state, item)

    def fed_back(self, row: bytes) -> None:
        """Check a buffer that is fed back."""
        header = decode_header(row)
        channel = (header.edge, header.sender, header.target)
        state = self._channels[channel]
        assert header.sequence == state.sequence, (
            f"channel {channel}: fed back {header.sequence} as no {state.sequence}"
        )
        state.sequence += 1
        for item in decode_items(row):
            assert isinstance(item, (Rows, EncodedColumns, CheckpointBarrier, BeginOfSuperstep, EndOfSuperstep)), (
                f"channel {channel}: {item} is fed back"
            )
            self._look_at(channel, state, item)

    def _timestamps(self, channel: SentChannel, chunk: Rows | EncodedColumns) -> Sequence[int] | None:
        if isinstance(chunk, Rows):
            return chunk.timestamps
        if channel[0] not in self._edges:
            # It is fed back.
            is_timed = chunk.timestamps is not None or chunk.narrow_timestamps is not None
            assert not is_timed, f"channel {channel}: feedback has timestamps"
            return None
        times = decoder(self._edges[channel[0]])(chunk).timestamps
        return None if times is None else times.tolist()

    def _look_at(self, channel: SentChannel, state: _ChannelState, item: Any) -> None:
        if isinstance(item, (Rows, EncodedColumns)):
            count, timestamps = len(item), self._timestamps(channel, item)
            assert count, f"channel {channel}: a chunk without a record"
            assert timestamps is None or len(timestamps) == count, f"channel {channel}: timestamps are not parallel"
            assert not state.ended, f"channel {channel}: {count} records after the end of the data"
            state.records += count
            # Exempt MAX: a timer at the end of time stamps its record with MAX. A generator in mid-stream then advances
            # its watermark up to its bound, and later records of another branch are rightly late.
            near_the_end = MAX_TIMESTAMP - _BOUND_MAX <= state.watermark < MAX_TIMESTAMP
            if self._exact_time and timestamps is not None and not near_the_end:
                early = min(timestamps)
                assert early > state.watermark, (
                    f"channel {channel}: a record of {early} after watermark {state.watermark}"
                )
        elif isinstance(item, Watermark):
            assert not state.ended, f"channel {channel}: {item} after the end of the data"
            assert item.timestamp > state.watermark, f"channel {channel}: {item} after {state.watermark}"
            assert state.active, f"channel {channel}: {item} while it is idle, so it is ignored"
            state.watermark = item.timestamp
        elif isinstance(item, EndOfSuperstep):
            assert item.number > state.watermark, f"channel {channel}: {item} after {state.watermark}"
            state.watermark = item.number
        elif isinstance(item, EndOfData):
            assert not state.ended, f"channel {channel}: its data ended twice"
            state.ended = True
        elif isinstance(item, CheckpointBarrier):
            n = item.checkpoint_id
            assert n not in state.barriers, f"channel {channel}: barrier {n} twice"
            state.barriers[n] = state.records
            cut = state.cuts.get(n, state.records)
            assert state.records == cut, (
                f"channel {channel}: barrier {n} after {state.records} records, to be after {cut}"
            )
        elif isinstance(item, WatermarkStatus):
            state.active = item.active

    def arrived(self, row: bytes) -> Header:
        """Check a row that reaches its target."""
        assert self._under_way[row] > 0, "a row arrived that was never sent"
        self._under_way[row] -= 1
        return decode_header(row)

    def all_arrived_but(self, edge: int) -> None:
        """At the end of a job that ran to completion: no row is in transit, except those of one edge."""
        under_way = [decode_header(row) for row, count in self._under_way.items() if count > 0]
        lost = [header for header in under_way if header.edge != edge]
        assert not lost, f"{len(lost)} rows were never delivered: {lost[:3]}"

    def cut(self, checkpoint_id: int, task: Task, rows: list[tuple[int, bytes]]) -> None:
        """Note the snapshot of a task: records sent by now, including `rows` in its outbox, are before the barrier."""
        ours = {edge.info.id: edge for edge in task.edges}
        for edge in ours.values():
            left = edge.gathering.records
            assert not left, f"{task.info} acknowledged {checkpoint_id} with {left} records not sent"
        waiting: Counter[SentChannel] = Counter()
        for _, row in rows:
            header = decode_header(row)
            if header.edge in ours and header.sender == task.info.subtask:
                records = [len(item) for item in decode_items(row) if isinstance(item, (Rows, EncodedColumns))]
                waiting[header.edge, header.sender, header.target] += sum(records)
        for edge in ours.values():
            for target in edge.targets:
                channel = (edge.info.id, task.info.subtask, target)
                state = self._channels[channel]
                state.cuts[checkpoint_id] = state.records + waiting[channel]

    def sent_before(self, channel: SentChannel, checkpoint_id: int) -> int:
        """Return the records sent on a channel before a barrier; all of them if it ended without one."""
        state = self._channels[channel]
        return state.barriers.get(checkpoint_id, state.records)

    def all_read(self, task: Task) -> None:
        """At the end of a job that ran to completion: a task has read all records sent to it."""
        sent = sum(self._channels[channel].records for channel in channels_of(task))
        read = records_read(task)
        assert not task.channels or read == sent, f"{task.info} read {read} records, its senders sent it {sent}"


class CutChecks:
    """Barriers cut the streams consistently: compared at the moment of a task's snapshot."""

    def __init__(self, channels: ChannelChecks, exactly_once: bool) -> None:
        self._channels = channels
        self._exactly_once = exactly_once
        self._unaligned: dict[tuple[SubtaskId, int], tuple[int, ChannelLog]] = {}
        """(subtask, checkpoint) -> the number of records it had read when it was frozen, and the log since then"""
        self.cuts = 0

    def watch(self, slot: Slot, task: Task) -> None:
        """Check each snapshot of a task when it is frozen."""
        freeze = task.snapshots.freeze

        def frozen(
            checkpoint_id: int, timestamp_ms: int, options: CheckpointOptions, in_flight: ChannelLog | None = None
        ) -> TaskSnapshot:
            if in_flight is None:
                self._compare(task, checkpoint_id, aligned=self._exactly_once or bool(options.savepoint))
            else:
                self._unaligned[task.id, checkpoint_id] = records_read(task), in_flight
            self._channels.cut(checkpoint_id, task, [*slot.outbox.rows, *slot.feedback.rows])
            return freeze(checkpoint_id, timestamp_ms, options, in_flight)

        request = task.request

        def checked(effect: Effect) -> None:
            if isinstance(effect, WriteSnapshot):
                self._compare_unaligned(task, effect.snapshot.checkpoint_id)
            request(effect)

        task.snapshots.freeze = frozen  # type: ignore[method-assign]
        task.request = checked  # type: ignore[method-assign]

    def _compare_unaligned(self, task: Task, checkpoint_id: int) -> None:
        # When the snapshot is about to be written, the log holds all data in flight.
        unaligned = self._unaligned.pop((task.id, checkpoint_id), None)
        if unaligned is None:
            return
        read, log = unaligned
        logged = sum(_records_in(buffer) for *_, buffer in log)
        self._compare_records(task, checkpoint_id, read + logged, aligned=True)

    def _compare(self, task: Task, checkpoint_id: int, aligned: bool) -> None:
        self._compare_records(task, checkpoint_id, records_read(task), aligned)

    def _compare_records(self, task: Task, checkpoint_id: int, read: int, aligned: bool) -> None:
        channels = channels_of(task)
        if not channels:
            return
        sent = sum(self._channels.sent_before(channel, checkpoint_id) for channel in channels)
        what = (
            f"{task.info} acknowledged {checkpoint_id} having read {read} records, its senders had sent {sent} before"
        )
        self.cuts += 1
        if aligned:
            assert read == sent, what
        else:
            assert read >= sent, what


class RegionChecks:
    """The checks of one attempt of a region. A restart does not affect the checks of other regions."""

    def __init__(
        self, edges: dict[int, EdgeInfo], collecting: frozenset[int], *, exact_time: bool, exactly_once: bool
    ) -> None:
        self.tasks = TaskChecks(collecting)
        self.channels = ChannelChecks(edges, exact_time, batched=False)
        self.cuts = CutChecks(self.channels, exactly_once)


def records_read(task: Task) -> int:
    """Return how many records the head operator of a task has got from its channels."""
    return sum(input.records_in - input.replayed for input in {channel.input for channel in task.inputs.channels})


def channels_of(task: Task) -> list[SentChannel]:
    """Return the channels that a task reads, without feedback."""
    return [(edge, sender, task.info.subtask) for edge, sender in task.channels]
