"""Feedback to the head of an iteration: processed by the operator, and logged while a barrier is in the loop.

    barrier n leaves the head       log n begins, with waiting records; the snapshot is frozen but not written
    records come back               they are processed, and kept in each log whose barrier has not come on the channel
    barrier n comes back            log n ends for this channel; for all: the snapshot, log included, is written
    a later barrier, or abort n     log n can't become complete: the snapshot is given up
    restore                         logged records are processed before all input
    stop with savepoint n           records that come back after barrier n are logged, and wait, in case n is aborted
    EndLoop, or max_wait_time       this input ends: records that come later are counted and dropped

Source: Carbone et al., "State Management in Apache Flink" (2017), Algorithm 2; Flink's StreamIterationHead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.network.buffer import (
    BufferItem,
    CheckpointBarrier,
    Header,
    decode_items,
    encode,
)
from penstock.engine.runtime.network.channel_log import ChannelLog
from penstock.engine.runtime.network.set_aside import BufferQueue
from penstock.engine.runtime.operators.iteration import IterationHead
from penstock.engine.runtime.task.environment import TaskParts
from penstock.engine.runtime.task.inputs import InputChannel
from penstock.engine.runtime.task.snapshot import TaskSnapshot
from penstock.engine.runtime.task.snapshot_logs import SnapshotLogs, replay


class Feedback:
    """The feedback of a task with the head of an iteration. `logs` delay its snapshots until all feedback is logged."""

    def __init__(self, parts: TaskParts, head: IterationHead, logs: SnapshotLogs) -> None:
        fed_back = [(edge, partitioner) for edge, partitioner in parts.vertex.inputs if edge.feedback]
        self._head = head
        self._inputs = parts.inputs
        self._counters = parts.chain.counters[0]
        self._work = parts.work
        self._info = parts.info
        self._key_groups = parts.key_groups
        self._now_ms = parts.environment.now_ms
        self._new_queue = parts.new_queue
        self._edges = fed_back
        self._channels = {channel.id for channel in parts.inputs.fed_back.channels}
        self._logs = logs
        self._held: BufferQueue | None = None
        """Feedback since the barrier of a stop with savepoint has left; None: the job does not stop."""
        self._last_ms: int | None = None
        """When the last feedback arrived, after the end of all other inputs (ms)."""

    @property
    def ended(self) -> bool:
        """Whether the input for feedback has ended: later feedback is dropped."""
        return self._inputs.fed_back.ended

    @property
    def holds_records(self) -> bool:
        """Whether records wait that the operator has not processed."""
        return bool(self._held)

    @property
    def awaited(self) -> int:
        """How many buffers are needed to continue: each is processed when it comes."""
        return 1

    def open(self) -> None:
        """Queue restored feedback, before all input."""
        restored, self._head.restored = self._head.restored, []
        inputs = [self._inputs.fed_back] * len(self._edges)
        replay(
            restored,
            inputs,
            self._edges,
            info=self._info,
            key_groups=self._key_groups,
            work=self._work,
        )

    def receive(self, channel: InputChannel, header: Header, buffer: bytes) -> None:
        """Queue a buffer that came back. In the queue it may wait behind a barrier to send, and is then logged."""
        self._work.append(partial(self._unpack, channel, header, buffer))

    def _unpack(self, channel: InputChannel, header: Header, buffer: bytes) -> None:
        """Log and process the records of a buffer, then its barrier, if it ends with one."""
        self._last_ms = None
        *records, last = decode_items(buffer)
        barrier = last if type(last) is CheckpointBarrier else None
        if barrier is None:
            records.append(last)
        channel.items += len(records)
        if records:
            self._accept(channel, encode(header, records) if barrier is not None else buffer, records)
        if barrier is not None:
            self._logs.barrier(channel.id, barrier.checkpoint_id)

    def _accept(self, channel: InputChannel, buffer: bytes, items: Sequence[BufferItem]) -> None:
        if self.ended:
            self._counters.late_records_dropped += sum(len(item) for item in items if type(item) is Rows)
            return
        self._logs.append(channel.id, buffer)
        if self._held is not None:
            self._held.append(buffer)
            return
        self._process(items)

    def _process(self, items: Sequence[BufferItem]) -> None:
        """Put records at the head of the queue."""
        for item in reversed(items):
            assert type(item) is Rows, "only rows and barriers are fed back"
            self._work.appendleft(partial(self._inputs.fed_back.records, item, 0))

    # Snapshots.

    def barrier_leaves(self, checkpoint_id: int, savepoint: bool) -> None:
        """Start the log of a barrier that leaves the head. The head is about to be frozen."""
        log = ChannelLog([edge for edge, _ in self._edges], self._info.parallelism, self._new_queue())
        for buffer in self._held or ():
            log.append(buffer)
        self._head.log = log
        self._logs.begin(checkpoint_id, log, self._channels)

    def frozen(self, snapshot: TaskSnapshot, stops: bool, aborted: bool) -> None:
        """Accept the frozen snapshot. `stops`: the job stops with it, and nothing leaves the head after it.

        `aborted`: the checkpoint was aborted already, so its barrier may never come back.
        """
        self._head.log = None
        self._logs.frozen(snapshot)
        if aborted:
            self._logs.abort(snapshot.checkpoint_id)
        if stops and self._held is None:
            self._held = self._new_queue()

    def defers(self, checkpoint_id: int, take: Callable[[], None], decline: Callable[..., None]) -> bool:
        """Return whether a barrier that has arrived waits: never, because feedback is logged at any time."""
        return False

    def abort(self, checkpoint_id: int) -> None:
        """Do nothing: no barrier waits."""

    def complete(self, checkpoint_id: int) -> None:
        """Do nothing: no record waits for a checkpoint."""

    def drain(self) -> None:
        """Do nothing: no record waits for a checkpoint."""

    def release_held(self) -> None:
        """Process the held feedback: the savepoint that would have stopped the job was aborted."""
        if self._held is not None:
            # Before all queued work: it came earlier.
            self._work.appendleft(partial(self._release, self._held))
            self._held = None

    def _release(self, held: BufferQueue) -> None:
        if held:
            items = decode_items(held.popleft())
            self._work.appendleft(partial(self._release, held))
            self._process(items)

    def end(self) -> None:
        """End the input for feedback: nothing is in flight, or the wait for feedback has expired."""
        self._work.append(self._inputs.end_feedback)

    def wake_at_ms(self) -> int | None:
        """Return when the wait for feedback expires (ms), or None."""
        if not self._head.max_wait_ms or self.ended or not self._inputs.only_feedback_left:
            return None
        if self._last_ms is None:
            self._last_ms = self._now_ms()
        return self._last_ms + self._head.max_wait_ms

    def end_if_due(self, now_ms: int) -> None:
        """End this input if nothing has come back for `max_wait_ms`."""
        at_ms = self.wake_at_ms()
        if at_ms is not None and now_ms >= at_ms:
            self.end()

    def close(self) -> None:
        """Remove spilled buffers from disk."""
        if self._held is not None:
            self._held.close()
