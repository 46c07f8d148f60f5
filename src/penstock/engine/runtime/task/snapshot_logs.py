"""Records in flight at a checkpoint: logged by the snapshots that wait for them, and replayed by a restore.

    begin n            log n begins; its missing channels are those that have not delivered barrier n
    a buffer           goes to each log that misses its channel
    barrier n          log n no longer misses that channel; with the last one, once frozen, the snapshot is written
    a later barrier    on a channel that log n misses: a task before this one has given up n, so n can't complete
    abort n            the same
    log n too large    the same

A restore processes logged records before all input. Feedback to the head of an iteration (`feedback.py`) and channels
on which a barrier has overtaken records (`network/alignment.py`) are logged alike. Source: Carbone et al., "State
Management in Apache Flink" (2017), Algorithm 2; Flink's ChannelStateWriter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from penstock.engine.runtime.checkpoint_options import DeclineReason
from penstock.engine.runtime.ids import ChannelId
from penstock.engine.runtime.network.buffer import ELEMENTS, NO_KEY_GROUP, EndOfInput, Header, encode
from penstock.engine.runtime.network.channel_log import ChannelLog, LoggedBuffer, LoggedEdge, chunks_for, share_of
from penstock.engine.runtime.task.context import SubtaskInfo
from penstock.engine.runtime.task.environment import TaskParts
from penstock.engine.runtime.task.inputs import InputChannel, TaskInput, Work
from penstock.engine.runtime.task.snapshot import TaskSnapshot
from penstock.engine.runtime.task.vertex import LevelSpec, VertexSpec
from penstock.engine.state.key_groups import KeyGroups


class _OpenLog:
    """A log that is not complete, or whose snapshot is not frozen yet. `missing`: channels without barrier n."""

    def __init__(self, log: ChannelLog, missing: set[ChannelId]) -> None:
        self.log = log
        self.missing = missing
        self.snapshot: TaskSnapshot | None = None
        self.is_given_up = False
        self.reason: DeclineReason | None = None
        """Why this task gave the log up; None if another task did."""


class SnapshotLogs:
    """The logs of one task's snapshots. Calls `complete` with a snapshot whose log is complete, and the log.

    Calls `given_up` with the number of a frozen snapshot that will not be written. If it passes a reason, this task
    was the first to give the snapshot up and declines the checkpoint for that reason.
    """

    def __init__(
        self,
        complete: Callable[[TaskSnapshot, ChannelLog], None],
        given_up: Callable[[int, DeclineReason | None], None],
        bytes_max: int | None = None,
    ) -> None:
        self._complete = complete
        self._given_up = given_up
        self._bytes_max = bytes_max
        self._open: dict[int, _OpenLog] = {}
        self._writing: dict[int, ChannelLog] = {}
        """Logs of snapshots that the host is writing."""

    def __bool__(self) -> bool:
        return bool(self._open)

    def begin(self, checkpoint_id: int, log: ChannelLog, missing: Iterable[ChannelId]) -> None:
        """Start a log. The snapshot is about to be frozen, and does not contain what arrives from now on."""
        self._open[checkpoint_id] = _OpenLog(log, set(missing))

    def log_of(self, checkpoint_id: int) -> ChannelLog | None:
        """Return the log of a snapshot that is about to be frozen."""
        open_log = self._open.get(checkpoint_id)
        return None if open_log is None else open_log.log

    def covers(self, channel: ChannelId) -> bool:
        """Return whether records of this channel are logged."""
        return any(channel in open_log.missing for open_log in self._open.values())

    def append(self, channel: ChannelId, buffer: bytes) -> None:
        """Log a buffer of a channel. Buffers of a channel come in order."""
        for number, open_log in list(self._open.items()):
            if channel in open_log.missing:
                open_log.log.append(buffer)
                if self._bytes_max is not None and open_log.log.bytes > self._bytes_max:
                    self._give_up(number, DeclineReason.ALIGNMENT_LIMIT)

    def barrier(self, channel: ChannelId, checkpoint_id: int) -> None:
        """Note a barrier of a channel. Barriers of a channel come in order."""
        for number, open_log in sorted(self._open.items()):
            if channel not in open_log.missing:
                continue
            if number < checkpoint_id:
                self._give_up(number, DeclineReason.NEWER)
            elif number == checkpoint_id:
                open_log.missing.discard(channel)
                self._write_if_complete(number)

    def refuse(self, channel: ChannelId, reason: DeclineReason) -> None:
        """Give up the logs that would have to contain what a channel has brought."""
        for number, open_log in sorted(self._open.items()):
            if channel in open_log.missing:
                self._give_up(number, reason)

    def channel_ended(self, channel: ChannelId) -> None:
        """Stop waiting for barriers of a channel that has ended."""
        for number, open_log in sorted(self._open.items()):
            open_log.missing.discard(channel)
            self._write_if_complete(number)

    def frozen(self, snapshot: TaskSnapshot) -> None:
        """Accept a frozen snapshot. It is written when its log is complete."""
        number = snapshot.checkpoint_id
        open_log = self._open[number]
        if open_log.is_given_up:
            del self._open[number]
            self._given_up(number, open_log.reason)
            return
        open_log.snapshot = snapshot
        self._write_if_complete(number)

    def abort(self, checkpoint_id: int) -> None:
        """Give up the log of an aborted checkpoint."""
        if checkpoint_id in self._open:
            self._give_up(checkpoint_id, None)

    def snapshot_ended(self, checkpoint_id: int) -> None:
        """Close the log of a snapshot that was written or has failed."""
        log = self._writing.pop(checkpoint_id, None)
        if log is not None:
            log.close()

    def close(self) -> None:
        """Remove spilled buffers from disk."""
        for open_log in self._open.values():
            open_log.log.close()
        for log in self._writing.values():
            log.close()

    def _write_if_complete(self, number: int) -> None:
        open_log = self._open[number]
        if open_log.missing or open_log.snapshot is None or open_log.is_given_up:
            return
        del self._open[number]
        self._writing[number] = open_log.log
        self._complete(open_log.snapshot, open_log.log)

    def _give_up(self, number: int, reason: DeclineReason | None) -> None:
        open_log = self._open[number]
        open_log.log.close()
        open_log.missing.clear()
        if open_log.snapshot is None:
            # The snapshot will still be frozen. What sinks prepare for it goes with the next one.
            open_log.is_given_up, open_log.reason = True, reason
            return
        del self._open[number]
        self._given_up(number, reason)


def replay(
    logged: Iterable[LoggedBuffer],
    inputs: Sequence[TaskInput],
    edges: Sequence[LoggedEdge],
    *,
    info: SubtaskInfo,
    key_groups: KeyGroups,
    work: deque[Work],
) -> None:
    """Queue this subtask's share of the records in flight when a snapshot was taken, before all input.

    `inputs`, `edges`: those that the log names, in its order.
    """
    share = deque(share_of(logged, edges, info.subtask, info.parallelism))

    def replay_next() -> None:
        logged_buffer = share.popleft()
        if share:
            work.appendleft(replay_next)
        input = inputs[min(logged_buffer[0], len(inputs) - 1)]
        chunks = chunks_for(
            logged_buffer,
            edges,
            subtask=info.subtask,
            parallelism=info.parallelism,
            key_groups=key_groups,
        )
        for chunk in reversed(chunks):
            input.replayed += len(chunk)
            work.appendleft(partial(input.records, chunk, 0))

    if share:
        work.append(replay_next)


# These tasks always take aligned checkpoints:
#
# * tasks of loops, heads included: a barrier that overtook records within a loop would return to a head before that
#   head has sent its own barrier, and the records behind it would be in two snapshots
# * tasks with a broadcast input: each subtask has a copy of the broadcast records, so with another parallelism a copy
#   would be processed twice or not at all. Flink aligns broadcast edges for the same reason (FLINK-22815)
# * tasks with a pointwise input (forward, rescale): with another parallelism the subtask of a record is unknown, and
#   records of one key would go to several subtasks. Flink aligns these as well (StreamGraphGenerator)


def may_overtake(vertex: VertexSpec, level: LevelSpec) -> bool:
    """Return whether barriers may overtake records of this task."""
    always_aligned = any(edge.in_loop or not partitioner.may_be_overtaken for edge, partitioner in vertex.inputs)
    return level.unaligned_after_ms is not None and not always_aligned


class OvertakenRecords:
    """Logs the records that barriers have overtaken: they are processed after a snapshot, and belong to it.

    Only tasks that may take unaligned checkpoints have this. `deliver` stands between the alignment and the inputs.
    """

    def __init__(self, parts: TaskParts, logs: SnapshotLogs) -> None:
        self._edges = [edge for edge, _ in parts.vertex.inputs]
        self._parallelism = parts.vertex.parallelism
        self._subtask = parts.id.subtask
        self._inputs = parts.inputs
        self._logs = logs
        self._new_queue = parts.new_queue

    def begin(self, checkpoint_id: int, channels: Iterable[InputChannel]) -> None:
        """Start a log: barrier `checkpoint_id` has overtaken the records before the barriers of these channels."""
        log = ChannelLog(self._edges, self._parallelism, self._new_queue())
        self._logs.begin(checkpoint_id, log, [channel.id for channel in channels])

    def barrier(self, channel: InputChannel, checkpoint_id: int) -> None:
        """Note a barrier of a channel."""
        self._logs.barrier(channel.id, checkpoint_id)

    def deliver(self, channel: InputChannel, item: Any) -> None:
        """Deliver a chunk or an element of a channel, in order. Elements are not logged: senders repeat them."""
        # Logged on arrival: the operators may change the values before the log is written.
        kind = type(item)
        if self._logs and kind not in ELEMENTS and self._logs.covers(channel.id):
            header = Header(
                NO_KEY_GROUP,
                channel.id.edge,
                channel.id.sender,
                sequence=0,
                target=self._subtask,
                attempt=0,
                kind=item.kind,
            )
            self._logs.append(channel.id, encode(header, [item]))
        elif kind is EndOfInput:
            self._logs.channel_ended(channel.id)
        self._inputs.deliver(channel, item)
