"""What comes back to the head of an iteration: given to the operator, logged while a barrier is on its way round.

    barrier n leaves the head       log n begins, with what waits here; the snapshot is frozen but not written
    records come back               they are processed, and kept in each log whose barrier this channel has not brought
    barrier n comes back            log n ends for this channel; for all: the snapshot, log included, is written
    a later barrier, or abort n     log n can't become complete: the snapshot is given up
    restore                         what was logged comes first, before all input
    stop with savepoint n           what comes back after barrier n left is logged, and waits, in case n is aborted
    EndLoop, or max_wait_time       this input ends: records that come later are counted and dropped

Source: Carbone et al., "State Management in Apache Flink" (2017), Algorithm 2; Flink's StreamIterationHead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penstock.engine.runtime.network.buffer import CheckpointBarrier, Header, Segment, decode_segments, encode
from penstock.engine.runtime.network.channel_log import ChannelLog
from penstock.engine.runtime.network.set_aside import BufferQueue
from penstock.engine.runtime.operators.iteration import IterationHead
from penstock.engine.runtime.task.environment import TaskParts
from penstock.engine.runtime.task.inputs import InputChannel
from penstock.engine.runtime.task.snapshot import TaskSnapshot
from penstock.engine.runtime.task.snapshot_logs import SnapshotLogs, replay


class Feedback:
    """Of the task with the head of an iteration. `logs` hold its snapshots back until all that comes back is logged."""

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
        self._edges = [edge.id for edge, _ in fed_back]
        self._partitioners = [partitioner for _, partitioner in fed_back]
        self._channels = {channel.id for channel in parts.inputs.fed_back.channels}
        self._logs = logs
        self._held: BufferQueue | None = None
        """What came back since the barrier left with which the job stops; None: it does not stop."""
        self._last_ms: int | None = None
        """When something came back last, from the end of all other inputs on."""

    @property
    def ended(self) -> bool:
        """Whether nothing is taken any more."""
        return self._inputs.fed_back.ended

    @property
    def holds_records(self) -> bool:
        """Whether it holds records that the operator has not been given."""
        return bool(self._held)

    def open(self) -> None:
        """What was restored comes before all input."""
        restored, self._head.restored = self._head.restored, []
        inputs = [self._inputs.fed_back] * len(self._edges)
        replay(restored, inputs, self._partitioners, self._info, self._key_groups, self._work)

    # What comes back.

    def receive(self, channel: InputChannel, header: Header, buffer: bytes) -> None:
        """A buffer came back. It is taken in its turn: what waits behind a barrier that is to leave is logged, too."""
        self._work.append(partial(self._taken, channel, header, buffer))

    def _taken(self, channel: InputChannel, header: Header, buffer: bytes) -> None:
        """Records, and perhaps a barrier behind them."""
        self._last_ms = None
        *records, last = decode_segments(buffer)
        barrier = last if isinstance(last, CheckpointBarrier) else None
        if barrier is None:
            records.append(last)
        channel.items += len(records)
        if records:
            self._take(channel, encode(header, records) if barrier is not None else buffer, records)
        if barrier is not None:
            self._logs.barrier(channel.id, barrier.checkpoint_id)

    def _take(self, channel: InputChannel, buffer: bytes, segments: Sequence[Segment]) -> None:
        if self.ended:
            self._counters.late_records_dropped += sum(
                len(segment[0]) for segment in segments if isinstance(segment, tuple)
            )
            return
        self._logs.append(channel.id, buffer)
        if self._held is not None:
            self._held.append(buffer)
            return
        self._process(segments)

    def _process(self, segments: Sequence[Segment]) -> None:
        """Next of all."""
        for segment in reversed(segments):
            assert isinstance(segment, tuple)
            self._work.appendleft(partial(self._inputs.fed_back.records, segment, 0))

    # Snapshots.

    def barrier_leaves(self, checkpoint_id: int) -> None:
        """The head is about to be frozen: its state gets a log, which begins here."""
        log = ChannelLog(self._edges, self._info.parallelism, self._new_queue())
        for buffer in self._held or ():
            log.append(buffer)
        self._head.log = log
        self._logs.begin(checkpoint_id, log, self._channels)

    def frozen(self, snapshot: TaskSnapshot, stops: bool, aborted: bool) -> None:
        """The head is frozen. `stops`: the job stops with this snapshot, and nothing leaves the head after it.

        `aborted`: so it was already, and its barrier may never come back.
        """
        self._head.log = None
        self._logs.frozen(snapshot)
        if aborted:
            self._logs.abort(snapshot.checkpoint_id)
        if stops and self._held is None:
            self._held = self._new_queue()

    def go_on(self) -> None:
        """The job does not stop with the last snapshot after all."""
        if self._held is not None:
            # Before all that waits: it came earlier.
            self._work.appendleft(partial(self._release, self._held))
            self._held = None

    def _release(self, held: BufferQueue) -> None:
        if held:
            segments = decode_segments(held.popleft())
            self._work.appendleft(partial(self._release, held))
            self._process(segments)

    # The end.

    def end(self) -> None:
        """Nothing is in flight any more, or is waited for no longer."""
        self._work.append(self._inputs.end_feedback)

    def wake_at_ms(self) -> int | None:
        """When the wait for feedback is over."""
        if not self._head.max_wait_ms or self.ended or not self._inputs.only_feedback_left:
            return None
        if self._last_ms is None:
            self._last_ms = self._now_ms()
        return self._last_ms + self._head.max_wait_ms

    def end_if_due(self, now_ms: int) -> None:
        """End this input if nothing has come back for too long."""
        at_ms = self.wake_at_ms()
        if at_ms is not None and now_ms >= at_ms:
            self.end()

    def close(self) -> None:
        """Remove what is on disk."""
        if self._held is not None:
            self._held.close()
