"""A task: one subtask of one vertex, as a state machine without I/O.

Events and buffers come in; rows go to the slot's outbox, everything else asked of the world is an effect. What is to be
done lies in a queue of work items, in order. A step does items until the queue is empty or the budget is used up; an
item that is too long puts its rest back at the head of the queue, and an operator that paused is resumed before the
next item.

    state       event                                  next
    CREATED     open                                   RUNNING
    RUNNING     end of data on all channels, all sent  DATA_ENDED
    DATA_ENDED  Close                                  FINISHED
    any         Cancel, or an error                    FINISHED
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from penstock.common.constants import MAX_TIMESTAMP
from penstock.runtime.network.alignment import AtLeastOnceAlignment, ExactlyOnceAlignment
from penstock.runtime.network.buffer import NO_KEY_GROUP, Header
from penstock.runtime.network.elements import (
    CheckpointBarrier,
    Element,
    EndOfData,
    EndOfInput,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
)
from penstock.runtime.network.output import Outbox, OutputEdge
from penstock.runtime.network.set_aside import SpillFile
from penstock.runtime.operators.keyed import KeyedOperator
from penstock.runtime.operators.operator import Operator, Timestamps, Values
from penstock.runtime.operators.source import SourceOperator
from penstock.runtime.task.budget import CHUNK_RECORDS_MAX, Budget
from penstock.runtime.task.chain import Chain
from penstock.runtime.task.context import OperatorContext, SubtaskInfo
from penstock.runtime.task.counters import TaskCounters
from penstock.runtime.task.events import (
    AbortCheckpoint,
    Acknowledge,
    AssignSplits,
    Cancel,
    CheckpointComplete,
    Close,
    DataEnded,
    Decline,
    Drain,
    Effect,
    Event,
    Finished,
    InputEnded,
    NoMoreSplits,
    RequestSplit,
    Result,
    SnapshotFailed,
    SnapshotWritten,
    TriggerCheckpoint,
    WriteSnapshot,
)
from penstock.runtime.task.journal import Journal
from penstock.runtime.task.snapshot import Snapshots
from penstock.runtime.task.vertex import LevelSpec, VertexSpec
from penstock.runtime.time.watermarks import WatermarkValve
from penstock.state.backends.rocksdb.store import Stores
from penstock.state.handles import RestoredOperator, SnapshotFigures
from penstock.state.key_groups import KeyGroups
from penstock.state.snapshot.storage import SnapshotStorage

_SLICE_NS = 2_000_000
_SLICE_FIRST = 64
Channel = tuple[int, int]


class TaskState(enum.Enum):
    """Where a task is in its life."""

    CREATED = "created"
    RUNNING = "running"
    DATA_ENDED = "data ended"
    FINISHED = "finished"


class Task:
    """One subtask. The host calls `open`, then `receive`, `handle` and `step`; `busy` and `wake_at_ms` say when."""

    _compacting = False
    _aligning_since_ns: int | None = None
    _last_triggered = 0
    _last_checkpoint = 0
    _last_completed = 0
    _given_up = 0
    _stopped_at: int | None = None
    """The savepoint with which the job stops: nothing is read and no timer fires after it, unless it is given up."""

    def __init__(
        self,
        vertex: VertexSpec,
        level: LevelSpec,
        subtask: int,
        run: str,
        now_ms: Callable[[], int],
        clock: Callable[[], int],
        budget: Budget,
        outbox: Outbox,
        stores: Stores | None = None,
        open_spill: Callable[[], SpillFile] | None = None,
    ) -> None:
        self.vertex = vertex
        self.info = _info_of(vertex, level, subtask, run)
        self.state = TaskState.CREATED
        self.counters = TaskCounters()
        self.journal = Journal()
        self.effects: list[Effect] = []
        self._now_ms = now_ms
        self._clock = clock
        self._budget = budget
        self._work: deque[tuple[Callable[..., None], Any, Any]] = deque()
        self._slice = _SLICE_FIRST
        self._flush_at_ms: int | None = None
        self._flushed_ms = 0
        self._key_group = NO_KEY_GROUP
        self._latency_interval_ms = level.latency_interval_ms
        self._latency_at_ms = 0
        self._markers_sent = 0
        key_groups = KeyGroups(vertex.max_parallelism)
        self._edges = [
            OutputEdge(
                info, partitioner, subtask, outbox, budget, self.counters, level.attempt, level.batched, key_groups
            )
            for info, partitioner in vertex.outputs
        ]
        self.chain = Chain(vertex.nodes)
        self._wire(key_groups, stores)
        self._snapshots = Snapshots(self.chain, self.info, key_groups)
        self._source = self.chain.head if isinstance(self.chain.head, SourceOperator) else None
        self._keyed_batch = level.batched and isinstance(self.chain.head, KeyedOperator)
        self._take_input = self.chain.head.process
        self._expected: dict[Channel, int] = dict.fromkeys(_channels(vertex, subtask), 0)
        self._open_channels = set(self._expected)
        self._valve = WatermarkValve(self._expected, self._on_watermark, self._on_status)
        alignment = ExactlyOnceAlignment if level.exactly_once else AtLeastOnceAlignment
        self._alignment = alignment(
            self._expected, self._enqueue, self._snapshot, self._decline, level.alignment_limits, open_spill
        )

    def _wire(self, key_groups: KeyGroups, stores: Stores | None) -> None:
        self.counters.operators = self.chain.counters
        self.chain.connect({edge.info.id: edge for edge in self._edges})
        for node, outlet, counters in zip(self.chain.nodes, self.chain.outlets, self.chain.counters, strict=True):
            context = OperatorContext(
                self.info,
                node.operator.name,
                node.uid,
                self._now_ms,
                self._budget,
                counters,
                key_groups,
                lambda: self._effect(RequestSplit(self.vertex.id, self.info.subtask)),
                self._result,
                stores,
            )
            for edge in outlet.leaving:
                edge.operator = context
            node.operator.setup(context, outlet)

    # What hosts call.

    def restore(self, state: dict[str, RestoredOperator], storage: SnapshotStorage) -> int:
        """Put state back, before `open`. Returns how many bytes were read; raises CheckpointError."""
        return self._snapshots.restore(state, storage)

    def open(self) -> None:
        """Open the operators: users' `open` methods run."""
        assert self.state is TaskState.CREATED
        self.chain.open()
        self.state = TaskState.RUNNING

    def receive(self, header: Header, buffer: bytes) -> None:
        """A buffer arrived on one of the task's channels."""
        channel = (header.edge, header.sender)
        self.counters.buffers_in += 1
        self.counters.bytes_in += len(buffer)
        if self._keyed_batch:
            if header.key_group != self._key_group:
                self._end_key_group()
                self._key_group = header.key_group
        elif header.key_group == NO_KEY_GROUP and not self.info.batched:
            expected = self._expected[channel]
            assert header.sequence == expected, (
                f"channel {channel}: buffer {header.sequence}, expected {expected}\n{self.journal}"
            )
            self._expected[channel] = expected + 1
        self._alignment.receive_buffer(channel, buffer)
        self._note_alignment()

    def handle(self, event: Event) -> None:
        """A control event. Its work is done by the next steps, but for Close and Cancel: they act at once."""
        self.journal.note(self._now_ms(), event)
        if self.state is TaskState.FINISHED:
            return
        _HANDLERS[type(event)](self, event)

    def step(self) -> None:
        """Do what can be done within the budget, then flush what is due."""
        began = self._clock()
        if self.state is not TaskState.FINISHED:
            self._do_due(self._now_ms())
            self._do_work()
            if self._source is not None and not self._work and not self.chain.paused:
                self._poll(self._source)
            if self._compacting:
                self._compacting = any(operator.compact() for operator in self.chain.operators)
            self._flush_due()
        self.counters.busy_ns += self._clock() - began

    @property
    def busy(self) -> bool:
        """Whether there is work that can be done now."""
        if self.state is TaskState.FINISHED:
            return False
        if self._work or self.chain.paused or self._alignment.behind:
            return True
        source = self._source
        if source is None or source.ended or self.state is not TaskState.RUNNING or self._stopped_at is not None:
            return False
        return source.poll_at_ms is not None and source.poll_at_ms <= self._now_ms()

    def wake_at_ms(self) -> int | None:
        """When to call `step` though nothing has arrived: a timer, a flush, a source that asked to be polled again."""
        if self.state is TaskState.FINISHED:
            return None
        if self._compacting:
            return self._now_ms()
        times = [self._flush_at_ms]
        if self.state is TaskState.RUNNING and self._stopped_at is None:
            times.append(self.chain.wake_at_ms())
            if self._source is not None:
                times.append(self._source.poll_at_ms)
        return min((at for at in times if at is not None), default=None)

    def take_effects(self) -> list[Effect]:
        """The effects since the last call."""
        effects, self.effects = self.effects, []
        return effects

    def check(self) -> None:
        """Assert what must hold between any two events."""
        assert self.state is not TaskState.FINISHED or not self._work
        assert not (self.state is TaskState.DATA_ENDED and self.chain.paused), "paused after the end of data"
        assert self._slice >= 1

    # Control events.

    def _assign_splits(self, event: AssignSplits) -> None:
        # In order with triggers: splits that come after one are not in its snapshot, for they are not assigned in it.
        self._work.append((self._add_splits, event.splits, None))

    def _add_splits(self, splits: list[Any], _: None) -> None:
        assert self._source is not None
        self._source.add_splits(splits)

    def _no_more_splits(self, event: NoMoreSplits) -> None:
        self._work.append((self._end_splits, None, None))

    def _end_splits(self, _: None, __: None) -> None:
        assert self._source is not None
        self._source.no_more_splits()

    def _input_ended(self, event: InputEnded) -> None:
        if self._keyed_batch:
            self._end_key_group()
        self._work.append((self._end_of_time, None, None))

    def _trigger_checkpoint(self, event: TriggerCheckpoint) -> None:
        assert self._source is not None
        if event.checkpoint_id <= self._last_triggered:
            # Told a second time, perhaps long after.
            return
        self._last_triggered = event.checkpoint_id
        barrier = CheckpointBarrier(event.checkpoint_id, event.timestamp_ms, event.full, event.savepoint, event.stop)
        self._work.append((self._take_snapshot, barrier, (0, 0)))

    def _drain(self, event: Drain) -> None:
        self._work.append((self._end_early, None, None))

    def _end_early(self, _: None, __: None) -> None:
        source = self._source
        assert source is not None
        if not source.ended and self.state is TaskState.RUNNING:
            source.ended = True
            self._work.append((self._source_ended, source, None))

    def _abort_checkpoint(self, event: AbortCheckpoint) -> None:
        self._alignment.abort(event.checkpoint_id)
        self._given_up = max(self._given_up, event.checkpoint_id)
        if self._stopped_at == event.checkpoint_id:
            self._stopped_at = None
        if self._alignment.current is None:
            self._aligning_since_ns = None

    def _close(self, event: Close) -> None:
        # A checkpoint may have been asked for just before: nobody waits for it any more.
        self._work.clear()
        self._finish(cancelled=False)

    def _cancel(self, event: Cancel) -> None:
        self._work.clear()
        for operator in self.chain.operators:
            operator.paused = False
        self._finish(cancelled=True)

    def _finish(self, cancelled: bool) -> None:
        self.state = TaskState.FINISHED
        self._alignment.close()
        self.chain.close()
        self._effect(Finished(self.vertex.id, self.info.subtask, cancelled))

    def _result(self, sink: int, values: list[Any]) -> None:
        self._effect(Result(self.vertex.id, self.info.subtask, sink, values, self._last_checkpoint))

    def _effect(self, effect: Effect) -> None:
        self.effects.append(effect)

    # Work items, in the order in which they were queued.

    def _do_work(self) -> None:
        work, chain, go_on = self._work, self.chain, self._budget.go_on
        while True:
            if chain.paused and not chain.resume():
                return
            if not work and self._alignment.behind:
                self._alignment.go_on()
                self._note_alignment()
            if not work or not go_on():
                return
            do, first, second = work.popleft()
            do(first, second)

    def _note_alignment(self) -> None:
        if self._alignment.current is not None and self._aligning_since_ns is None:
            self._aligning_since_ns = self._clock()

    def _enqueue(self, channel: Channel, item: Any) -> None:
        if isinstance(item, Element):
            self._work.append((_ELEMENTS[type(item)].__get__(self), channel, item))
        else:
            self._work.append((self._records, item, 0))

    def _records(self, segment: tuple[Values, Timestamps], position: int) -> None:
        """A chunk, in slices that take no longer than a step should: a slow function must not delay what is due."""
        values, timestamps = segment
        size = self._slice
        if position or len(values) > size:
            stop = position + size
            if stop < len(values):
                self._work.appendleft((self._records, segment, stop))
            values = values[position:stop]
            timestamps = timestamps[position:stop] if timestamps is not None else None
        self.chain.counters[0].records_in += len(values)
        clock = self._clock
        began = clock()
        self._take_input(values, timestamps)
        took = clock() - began
        if took > _SLICE_NS * 2:
            self._slice = max(1, len(values) * _SLICE_NS // took)
        elif took < _SLICE_NS // 2 and len(values) >= size:
            self._slice = min(size * 2, CHUNK_RECORDS_MAX)

    def _watermark(self, channel: Channel, element: Watermark) -> None:
        self._valve.watermark(channel, element.timestamp)

    def _status(self, channel: Channel, element: WatermarkStatus) -> None:
        self._valve.status(channel, element.active)

    def _on_watermark(self, timestamp: int) -> None:
        self.chain.counters[0].watermark = timestamp
        self._work.appendleft((self._advance, timestamp, None))

    def _on_status(self, active: bool) -> None:
        # The valve passes a last watermark on before it turns idle: what it says first is to be done first.
        position = 1 if self._work and self._work[0][0] == self._advance and not active else 0
        self._work.insert(position, (self._hand_on_status, active, None))

    def _advance(self, timestamp: int, _: None) -> None:
        self.chain.head.watermark(timestamp)

    def _hand_on_status(self, active: bool, _: None) -> None:
        self.chain.head.status(active)

    def _barrier(self, channel: Channel, element: CheckpointBarrier) -> None:
        raise AssertionError("barriers end in the alignment")

    def _latency_marker(self, channel: Channel, marker: LatencyMarker) -> None:
        if self._edges:
            self._send_marker(marker)
        else:
            self.counters.latency(self._now_ms() - marker.marked_ms)

    def _send_marker(self, marker: LatencyMarker) -> None:
        self._markers_sent += 1
        for edge in self._edges:
            edge.element_to_one(marker, self._markers_sent)

    def _end_of_data(self, channel: Channel, element: EndOfData) -> None:
        self._open_channels.discard(channel)
        if not self._open_channels:
            self._work.append((self._finish_operators, 0, None))

    def _end_of_input(self, channel: Channel, element: EndOfInput) -> None:
        self._open_channels.discard(channel)

    def _end_key_group(self) -> None:
        if self._key_group != NO_KEY_GROUP:
            self._work.append((self._finish_key_group, self.chain.head, None))

    def _finish_key_group(self, head: Operator, _: None) -> None:
        head.end_key_group()

    def _end_of_time(self, _: None, __: None) -> None:
        self._work.append((self._finish_operators, 0, None))
        self.chain.head.watermark(MAX_TIMESTAMP)

    def _finish_operators(self, index: int, _: None) -> None:
        """Operators finish one after the other, each only when the one before has sent all it had."""
        if index < len(self.chain.operators):
            self._work.appendleft((self._finish_operators, index + 1, None))
            self.chain.operators[index].finish()
            return
        for edge in self._edges:
            edge.element(EndOfData())
            edge.flush()
        self.state = TaskState.DATA_ENDED
        self._effect(DataEnded(self.vertex.id, self.info.subtask))

    def _snapshot(self, barrier: CheckpointBarrier) -> None:
        since_ns, self._aligning_since_ns = self._aligning_since_ns, None
        aligned_ns = self._clock() - since_ns if since_ns is not None else 0
        self._work.append((self._take_snapshot, barrier, (aligned_ns / 1e6, self._alignment.set_aside)))

    def _take_snapshot(self, barrier: CheckpointBarrier, alignment: tuple[float, int]) -> None:
        began_ns = self._clock()
        self._snapshots.prepare(barrier.checkpoint_id)
        self._last_checkpoint = barrier.checkpoint_id
        for edge in self._edges:
            edge.element(barrier)
            edge.flush()
        if barrier.stop and barrier.checkpoint_id > self._given_up:
            self._stopped_at = barrier.checkpoint_id
        snapshot = self._snapshots.freeze(barrier.checkpoint_id, barrier.timestamp_ms, barrier.full, barrier.savepoint)
        aligned_ms, set_aside = alignment
        snapshot.figures = SnapshotFigures(aligned_ms, (self._clock() - began_ns) / 1e6, set_aside=set_aside)
        self._effect(WriteSnapshot(self.vertex.id, self.info.subtask, snapshot))

    def _snapshot_written(self, event: SnapshotWritten) -> None:
        self._compacting = True
        done = self._snapshots.written(event.checkpoint_id, event.state, event.took_ms)
        if done is None:
            self._decline(event.checkpoint_id, "an earlier part of its state could not be written")
            return
        state, commits = done
        state = msgspec.structs.replace(state, ended=self.state is TaskState.DATA_ENDED)
        self._effect(Acknowledge(self.vertex.id, self.info.subtask, event.checkpoint_id, state, commits))

    def _snapshot_failed(self, event: SnapshotFailed) -> None:
        self._compacting = True
        self._snapshots.failed(event.checkpoint_id)
        self._decline(event.checkpoint_id, event.reason)

    def _checkpoint_complete(self, event: CheckpointComplete) -> None:
        if event.checkpoint_id <= self._last_completed:
            # Told a second time. Writers are told of each checkpoint once, in order.
            return
        self._last_completed = event.checkpoint_id
        for operator in self.chain.operators:
            operator.checkpoint_complete(event.checkpoint_id)

    def _decline(self, checkpoint_id: int, reason: str) -> None:
        self._effect(Decline(self.vertex.id, self.info.subtask, checkpoint_id, reason))

    # What time brings.

    def _do_due(self, now_ms: int) -> None:
        if self.state is TaskState.RUNNING and self._stopped_at is None and not self.chain.paused:
            for operator in self.chain.due(now_ms):
                self._work.appendleft((self._fire, operator, now_ms))

    def _fire(self, operator: Operator, now_ms: int) -> None:
        operator.processing_time(now_ms)

    def _poll(self, source: SourceOperator) -> None:
        if self.state is not TaskState.RUNNING or source.ended or self._stopped_at is not None:
            return
        now_ms, go_on = self._now_ms(), self._budget.go_on
        if self._latency_interval_ms and now_ms >= self._latency_at_ms:
            self._latency_at_ms = now_ms + self._latency_interval_ms
            self._send_marker(LatencyMarker(now_ms, self.vertex.id, self.info.subtask))
        if source.poll_at_ms is None or source.poll_at_ms > now_ms:
            return
        while self._poll_slice(source) and go_on():
            pass
        self._end_source(source)

    def _poll_slice(self, source: SourceOperator) -> bool:
        """As with chunks that are received: so many records as a step should take time."""
        clock = self._clock
        began = clock()
        source.polled_records = 0
        go_on = source.poll()
        took, records = clock() - began, source.polled_records
        if took > _SLICE_NS * 2 and records:
            source.records_max = max(1, records * _SLICE_NS // took)
        elif took < _SLICE_NS // 2 and records >= source.records_max:
            source.records_max = min(source.records_max * 2, CHUNK_RECORDS_MAX)
        return go_on

    def _end_source(self, source: SourceOperator) -> None:
        if source.ended:
            self._work.append((self._source_ended, source, None))
            self._do_work()

    def _source_ended(self, source: SourceOperator, _: None) -> None:
        self._work.append((self._finish_operators, 0, None))
        source.end_time()

    def _flush_due(self) -> None:
        timeout_ms = self.vertex.buffer_timeout_ms
        if not any(edge.pending for edge in self._edges):
            self._flush_at_ms = None
            return
        if timeout_ms < 0 or self.info.batched:
            return
        now_ms = self._now_ms()
        if self._flush_at_ms is None:
            # Counted from the last flush: the first records after a quiet moment do not wait, and still there is no
            # more than one flush in the time of a timeout.
            self._flush_at_ms = max(now_ms, self._flushed_ms + timeout_ms)
        if now_ms >= self._flush_at_ms:
            for edge in self._edges:
                edge.flush()
            self._flush_at_ms = None
            self._flushed_ms = now_ms


def _info_of(vertex: VertexSpec, level: LevelSpec, subtask: int, run: str) -> SubtaskInfo:
    return SubtaskInfo(
        level.job_id,
        vertex.id,
        vertex.name,
        subtask,
        vertex.parallelism,
        vertex.max_parallelism,
        level.attempt,
        run,
        level.batched,
        level.job_parameters,
        level.checkpointing,
    )


def _channels(vertex: VertexSpec, subtask: int) -> list[Channel]:
    """The channels by which a subtask is sent something: (edge, sender)."""
    return [
        (info.id, sender)
        for info, partitioner in vertex.inputs
        for sender in range(info.source_parallelism)
        if subtask in partitioner.targets(sender, info.source_parallelism, info.target_parallelism)
    ]


_HANDLERS: dict[type[Event], Callable[[Task, Any], None]] = {
    AssignSplits: Task._assign_splits,
    NoMoreSplits: Task._no_more_splits,
    InputEnded: Task._input_ended,
    TriggerCheckpoint: Task._trigger_checkpoint,
    Drain: Task._drain,
    AbortCheckpoint: Task._abort_checkpoint,
    CheckpointComplete: Task._checkpoint_complete,
    SnapshotWritten: Task._snapshot_written,
    SnapshotFailed: Task._snapshot_failed,
    Close: Task._close,
    Cancel: Task._cancel,
}

_ELEMENTS: dict[type[Element], Any] = {
    Watermark: Task._watermark,
    WatermarkStatus: Task._status,
    CheckpointBarrier: Task._barrier,
    EndOfData: Task._end_of_data,
    EndOfInput: Task._end_of_input,
    LatencyMarker: Task._latency_marker,
}
