"""A task's part in checkpoints, from the trigger or the aligned barriers to the acknowledgement.

The coordinator triggers sources. All other tasks take their snapshot when the barriers of all channels of all inputs
have arrived. Both append the same work item, `_take_snapshot`, so the snapshot has its place between the records.
Source: Flink's SubtaskCheckpointCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from penstock.common.errors import CheckpointError
from penstock.common.functions.script_functions import dumps
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.checkpoint_options import Commits, DeclineReason
from penstock.engine.runtime.network.alignment import (
    AlignmentOutput,
    AtLeastOnceAlignment,
    ExactlyOnceAlignment,
    UnalignedAlignment,
)
from penstock.engine.runtime.network.buffer import CheckpointBarrier
from penstock.engine.runtime.network.channel_log import ChannelLog
from penstock.engine.runtime.network.set_aside import SetAside
from penstock.engine.runtime.task.environment import TaskParts
from penstock.engine.runtime.task.events import (
    AbortCheckpoint,
    Acknowledge,
    CheckpointComplete,
    Decline,
    DropUpdate,
    Event,
    Opaque,
    PrepareUpdate,
    SnapshotFailed,
    SnapshotWritten,
    TriggerCheckpoint,
    WriteSnapshot,
)
from penstock.engine.runtime.task.feedback import Feedback
from penstock.engine.runtime.task.function_update import FunctionUpdate
from penstock.engine.runtime.task.inputs import InputChannel
from penstock.engine.runtime.task.snapshot import Snapshots, TaskSnapshot
from penstock.engine.runtime.task.snapshot_logs import OvertakenRecords, SnapshotLogs, may_overtake, replay
from penstock.engine.runtime.task.superstep_feedback import SuperstepFeedback
from penstock.engine.state.handles import SnapshotFigures


class TaskCheckpoints:
    """The checkpoints of one task. Its alignment delivers chunks and elements to the task's inputs."""

    def __init__(self, parts: TaskParts) -> None:
        level, environment = parts.level, parts.environment
        overtakes = level.exactly_once and may_overtake(parts.vertex, level)
        self._subtask = parts.id
        self.logs = SnapshotLogs(
            self._log_complete, self._log_given_up, level.alignment_limits.bytes_max if overtakes else None
        )
        """The logs of snapshots that wait for records in flight."""
        self._unaligned = self._with_unaligned(parts) if overtakes else None
        self.alignment = self._unaligned or self._with_alignment(parts)
        self.snapshots = Snapshots(parts.chain, parts.info, parts.key_groups)
        self.compacting = False
        """Whether there may be frozen layers to compact, because a snapshot has been written or has failed."""
        self.stopped_by: int | None = None
        """The savepoint that stops the job, once its barrier was sent: no reads or timers after it."""
        self.last = 0
        """The last checkpoint that the task has taken its part of."""
        self.updates = FunctionUpdate(parts.id, parts.chain, parts.request)
        self.feedback: Feedback | SuperstepFeedback | None = None
        """The feedback of the head of an iteration, which snapshots log."""
        self._vertex = parts.vertex
        self._inputs = parts.inputs
        self._chain = parts.chain
        self._edges = parts.edges
        self._work = parts.work
        self._request = parts.request
        self._counters = parts.counters
        self._clock = environment.clock
        self._now_ms = environment.now_ms
        self._unaligned_after_ms = level.unaligned_after_ms
        self._aligning = 0
        self._first_barrier_ms: int | None = None
        self._last_triggered = 0
        self._last_completed = 0
        self._last_aborted = 0
        self._aborted: set[int] = set()
        """Checkpoints aborted since the last complete one: the event may arrive twice, operators are notified once."""

    @property
    def handlers(self) -> dict[type[Event], Callable[[Any], None]]:
        """The handlers of control events. PrepareUpdate needs no queue: records in progress do not see it."""
        return {
            TriggerCheckpoint: self.trigger,
            AbortCheckpoint: self.abort,
            CheckpointComplete: self.complete,
            SnapshotFailed: self.failed,
            PrepareUpdate: self.updates.prepare,
            DropUpdate: self.updates.drop,
        }

    def _with_alignment(self, parts: TaskParts) -> ExactlyOnceAlignment:
        alignment = ExactlyOnceAlignment if parts.level.exactly_once else AtLeastOnceAlignment
        output = AlignmentOutput(
            parts.inputs.deliver, self._on_aligned, self.decline, parts.environment.on_buffer_started
        )
        return alignment(parts.inputs.channels, output, _set_aside(parts))

    def _with_unaligned(self, parts: TaskParts) -> UnalignedAlignment:
        overtaken = OvertakenRecords(parts, self.logs)
        return UnalignedAlignment(
            parts.inputs.channels,
            AlignmentOutput(overtaken.deliver, self._on_aligned, self.decline, parts.environment.on_buffer_started),
            _set_aside(parts),
            overtaken=overtaken.begin,
            arrived=overtaken.barrier,
            immediately=parts.level.unaligned_after_ms == 0,
        )

    def _log_complete(self, snapshot: TaskSnapshot, log: ChannelLog) -> None:
        """Write a snapshot whose log is complete."""
        if self.feedback is None:
            snapshot.figures = msgspec.structs.replace(snapshot.figures, in_flight=log.bytes)
        self._write(snapshot)

    def _log_given_up(self, checkpoint_id: int, reason: DeclineReason | None) -> None:
        """Drop a snapshot whose log can't become complete."""
        self.compacting = True
        self.snapshots.failed(checkpoint_id)
        if reason is not None:
            self.decline(checkpoint_id, reason, "what was in flight to the task is not in its snapshot")

    def wake_at_ms(self) -> int | None:
        """Return when the current barrier may overtake records on the other channels (ms), or None."""
        barrier = self.alignment.current
        if self._unaligned is None or not self._unaligned.may_overtake or barrier is None:
            return None
        # Counted from the start of the checkpoint: the timeout is for the whole graph, not for each exchange. Source:
        # Flink's BarrierAlignmentUtil.getTimerDelay.
        return barrier.timestamp_ms + (self._unaligned_after_ms or 0)

    def overtake_if_due(self, now_ms: int) -> None:
        """Let the barrier overtake records if the checkpoint is old enough."""
        at_ms = self.wake_at_ms()
        if self._unaligned is not None and at_ms is not None and now_ms >= at_ms:
            self._unaligned.overtake()

    def close(self) -> None:
        """Close the functions of a prepared update, and remove spilled buffers from disk."""
        self.updates.close()
        self.alignment.close()
        self.logs.close()

    def open(self) -> None:
        """Queue the restored records in flight, before all input.

        Raises CheckpointError if they belong to an input that the program no longer has.
        """
        restored, self.snapshots.in_flight = self.snapshots.in_flight, []
        if any(edge >= len(self._vertex.inputs) for edge, *_ in restored):
            raise CheckpointError(
                f"'{self._vertex.name}' has fewer inputs than when this unaligned checkpoint was taken, which holds "
                "records in flight on a removed input. Stop the former program with a savepoint, and start this one "
                "from it"
            )
        inputs = [self._inputs.inputs[edge.input_index] for edge, _ in self._vertex.inputs]
        replay(
            restored,
            inputs,
            self._vertex.inputs,
            info=self.snapshots.info,
            key_groups=self.snapshots.key_groups,
            work=self._work,
        )

    def receive(self, channel: InputChannel, buffer: bytes) -> None:
        """Deliver a buffer now, or let it wait for the barriers of other channels."""
        self.alignment.receive_buffer(channel, buffer)
        if self.alignment.current is not None:
            self._note_alignment()

    def deliver_next(self) -> None:
        """Deliver the next waiting buffer."""
        self.alignment.deliver_next()
        if self.alignment.current is not None:
            self._note_alignment()

    def trigger(self, event: TriggerCheckpoint) -> None:
        """Start a checkpoint in a source. A trigger may arrive twice; the second, possibly much later, is ignored."""
        assert not self._inputs.channels, "only sources are triggered, other tasks wait for barriers"
        # A second barrier would start the checkpoint again downstream.
        if event.checkpoint_id <= self._last_triggered:
            return
        self._last_triggered = event.checkpoint_id
        barrier = CheckpointBarrier(event.checkpoint_id, event.timestamp_ms, event.options)
        # Queued: records that the source has already read belong before the barrier.
        self._work.append(partial(self._take_snapshot, barrier, None))

    def abort(self, event: AbortCheckpoint) -> None:
        """Abort a checkpoint. Its barriers may still be in transit."""
        checkpoint_id = event.checkpoint_id
        self.alignment.abort(checkpoint_id)
        self._last_aborted = max(self._last_aborted, checkpoint_id)
        # The savepoint was to stop the job: now it does not, and the source continues to read.
        continues = self.stopped_by == checkpoint_id
        if continues:
            self.stopped_by = None
        self.logs.abort(checkpoint_id)
        if self.feedback is not None:
            self.feedback.abort(checkpoint_id)
        if continues and self.feedback is not None:
            self.feedback.release_held()
        if self.alignment.current is None:
            self._counters.aligning_since_ns = self._first_barrier_ms = None
        # `complete` drops the numbers up to its own, so ignore older aborts, which may be duplicates.
        if checkpoint_id > self._last_completed and checkpoint_id not in self._aborted:
            self._aborted.add(checkpoint_id)
            for operator in self._chain.operators:
                operator.checkpoint_aborted(checkpoint_id)

    def decline(self, checkpoint_id: int, reason: DeclineReason, detail: str = "") -> None:
        """Decline a checkpoint: this subtask has no snapshot for it."""
        self._request(Decline(*self._subtask, checkpoint_id, reason, detail))

    def written(self, event: SnapshotWritten, ended: bool) -> None:
        """Acknowledge a snapshot that the host has written. `ended`: the data of the task has ended."""
        self.compacting = True
        self.logs.snapshot_ended(event.checkpoint_id)
        written = self.snapshots.written(event.checkpoint_id, event.state, event.took_ms)
        # An increment whose predecessor failed could not be restored.
        if written is None:
            self.decline(event.checkpoint_id, DeclineReason.STATE, "an earlier part of its state could not be written")
            return
        state, commits = written
        state = msgspec.structs.replace(state, ended=ended)
        self._request(Acknowledge(*self._subtask, event.checkpoint_id, state, self._pickled(commits)))

    def _pickled(self, commits: Commits) -> Opaque:
        """Pickle commits. Raises UserFunctionError, with operator and committable, if one can't be pickled."""
        try:
            return Opaque.pickled(commits)
        except RAISED as error:
            contexts = {one.sink_id: one.context for one in self._chain.operators if one.is_sink}
            for sink_id, committables in commits:
                for committable in committables:
                    try:
                        dumps(committable)
                    except RAISED:
                        raise contexts[sink_id].pickling_error(error, "prepare_commit", committables) from error
            raise

    def failed(self, event: SnapshotFailed) -> None:
        """Decline a checkpoint whose snapshot the host could not write."""
        self.compacting = True
        self.logs.snapshot_ended(event.checkpoint_id)
        self.snapshots.failed(event.checkpoint_id)
        self.decline(event.checkpoint_id, DeclineReason.STATE, event.reason)

    def complete(self, event: CheckpointComplete) -> None:
        """Notify operators of a complete checkpoint, once and in order. The event may arrive twice."""
        if event.checkpoint_id <= self._last_completed:
            return
        self._last_completed = event.checkpoint_id
        self._aborted = {n for n in self._aborted if n > event.checkpoint_id}
        if self.feedback is not None:
            self.feedback.complete(event.checkpoint_id)
        for operator in self._chain.operators:
            operator.checkpoint_complete(event.checkpoint_id)

    def compact(self) -> None:
        """Compact a few entries of frozen layers."""
        self.compacting = any(operator.compact() for operator in self._chain.operators)

    def _note_alignment(self) -> None:
        assert self.alignment.current is not None
        counters, barrier = self._counters, self.alignment.current
        # A checkpoint that was declined, or superseded by a newer one, leaves no figures.
        if counters.aligning_since_ns is None or self._aligning != barrier.checkpoint_id:
            self._aligning = barrier.checkpoint_id
            counters.aligning_since_ns = self._clock()
            self._first_barrier_ms = self._now_ms()
            counters.start_delay_ms = _delay_ms(barrier, self._first_barrier_ms)

    def _on_aligned(self, barrier: CheckpointBarrier) -> None:
        counters = self._counters
        since_ns = counters.aligning_since_ns
        arrived_ms, self._first_barrier_ms = self._first_barrier_ms, None
        counters.alignment_ns = aligned_ns = self._clock() - since_ns if since_ns is not None else 0
        counters.aligning_since_ns = None
        counters.start_delay_ms = delay_ms = _delay_ms(barrier, self._now_ms() if arrived_ms is None else arrived_ms)
        figures = SnapshotFigures(aligned_ns / 1e6, set_aside=self.alignment.set_aside, start_delay_ms=delay_ms)
        take = partial(self._take_snapshot, barrier, figures)
        if self.feedback is None or not self.feedback.defers(barrier.checkpoint_id, take, self.decline):
            self._work.append(take)

    def _take_snapshot(self, barrier: CheckpointBarrier, figures: SnapshotFigures | None) -> None:
        started_ns = self._clock()
        held = [operator.holds_superstep for operator in self._chain.operators]
        if any(held) or any(edge.holds_superstep for edge in self._edges):
            # Its iteration waits for another one: at the boundaries of its own supersteps nothing is held.
            self.decline(barrier.checkpoint_id, DeclineReason.ITERATION)
            return
        if figures is None:
            self._counters.start_delay_ms = delay_ms = _delay_ms(barrier, self._now_ms())
            figures = SnapshotFigures(start_delay_ms=delay_ms)
        # Records that operators emit in `prepare` belong before the barrier; frozen state must not change after it.
        self.snapshots.prepare(barrier.checkpoint_id, bool(barrier.options.savepoint))
        self.last = barrier.checkpoint_id
        # The barrier leaves before state is frozen: tasks downstream can align while this one freezes and writes.
        for edge in self._edges:
            edge.element(barrier)
            edge.flush()
        if self.feedback is not None:
            self.feedback.barrier_leaves(barrier.checkpoint_id, bool(barrier.options.savepoint))
        options = barrier.options
        # Not if the savepoint was aborted meanwhile: the task would wait for a stop that never comes.
        if options.stop and barrier.checkpoint_id > self._last_aborted:
            self.stopped_by = barrier.checkpoint_id
        log = self.logs.log_of(barrier.checkpoint_id) if self.feedback is None else None
        snapshot = self.snapshots.freeze(barrier.checkpoint_id, barrier.timestamp_ms, options, log)
        # After `freeze`: the snapshot belongs to the old functions. If the new ones fail now, it is not written.
        self.updates.apply(options.update)
        took_ms = (self._clock() - started_ns) / 1e6
        snapshot.figures = msgspec.structs.replace(figures, sync_ms=took_ms)
        if self.feedback is not None:
            n = barrier.checkpoint_id
            aborted = n in self._aborted or n <= self._last_completed
            self.feedback.frozen(snapshot, self.stopped_by is not None, aborted)
        elif log is not None:
            self.logs.frozen(snapshot)
        else:
            self._write(snapshot)

    def _write(self, snapshot: TaskSnapshot) -> None:
        self._request(WriteSnapshot(*self._subtask, snapshot))


def _delay_ms(barrier: CheckpointBarrier, now_ms: int) -> int:
    """Return the time since the trigger, at least 0: the clocks of two machines may differ."""
    return max(0, now_ms - barrier.timestamp_ms)


def _set_aside(parts: TaskParts) -> SetAside:
    return SetAside(parts.level.alignment_limits, parts.environment.open_spill)
