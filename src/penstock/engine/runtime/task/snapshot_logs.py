"""What is in flight at a checkpoint: logged by snapshots that wait for it, overtaken by barriers, replayed.

    begin n            log n begins; its missing channels are those that have not delivered barrier n
    a buffer           goes to each log that misses its channel
    barrier n          log n misses that channel no more; with the last one, once frozen, the snapshot is written
    a later barrier    on a channel that log n misses: n was given up by a task before this one, and can't be complete
    abort n            the same
    log n too large    the same

What a log holds is restored before all input. The way back to the head of an iteration (`feedback.py`) and channels on
which a barrier has overtaken records (`network/alignment.py`) are logged alike. Source: Carbone et al., "State
Management in Apache Flink" (2017), Algorithm 2; Flink's ChannelStateWriter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from penstock.engine.runtime.checkpoint_options import DeclineReason
from penstock.engine.runtime.ids import ChannelId
from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, EndOfInput, Header, encode
from penstock.engine.runtime.network.channel_log import ChannelLog, LoggedBuffer, segments_for, share_of
from penstock.engine.runtime.network.partitioners import (
    BroadcastPartitioner,
    ForwardPartitioner,
    Partitioner,
    RescalePartitioner,
)
from penstock.engine.runtime.task.context import SubtaskInfo
from penstock.engine.runtime.task.environment import TaskParts
from penstock.engine.runtime.task.inputs import InputChannel, TaskInput, Work
from penstock.engine.runtime.task.snapshot import TaskSnapshot
from penstock.engine.runtime.task.vertex import LevelSpec, VertexSpec
from penstock.engine.state.key_groups import KeyGroups


class _OpenLog:
    """A log that is not complete, or whose snapshot is not frozen yet. `missing`: see above."""

    def __init__(self, log: ChannelLog, missing: set[ChannelId]) -> None:
        self.log = log
        self.missing = missing
        self.snapshot: TaskSnapshot | None = None
        self.is_given_up = False
        self.reason: DeclineReason | None = None
        """Why the task itself gave it up."""


class SnapshotLogs:
    """Of one task. `complete` takes a snapshot whose log is complete, and the log.

    `given_up` takes the number of one that is frozen and will not be written. If the task was the first to know, it
    declines the checkpoint for the reason that comes with it.
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
        """Logs of snapshots that are being written."""

    def __bool__(self) -> bool:
        return bool(self._open)

    def begin(self, checkpoint_id: int, log: ChannelLog, missing: Iterable[ChannelId]) -> None:
        """The snapshot is about to be frozen; what comes from now on is not in it."""
        self._open[checkpoint_id] = _OpenLog(log, set(missing))

    def log_of(self, checkpoint_id: int) -> ChannelLog | None:
        """The log of a snapshot that is about to be frozen."""
        open_log = self._open.get(checkpoint_id)
        return None if open_log is None else open_log.log

    def misses(self, channel: ChannelId) -> bool:
        """Whether what comes on this channel is logged."""
        return any(channel in open_log.missing for open_log in self._open.values())

    def append(self, channel: ChannelId, buffer: bytes) -> None:
        """A buffer of a channel, in order."""
        for number, open_log in list(self._open.items()):
            if channel in open_log.missing:
                open_log.log.append(buffer)
                if self._bytes_max is not None and open_log.log.bytes > self._bytes_max:
                    self._give_up(number, DeclineReason.ALIGNMENT_LIMIT)

    def barrier(self, channel: ChannelId, checkpoint_id: int) -> None:
        """A barrier has come on a channel. Each channel brings them in order."""
        for number, open_log in sorted(self._open.items()):
            if channel not in open_log.missing:
                continue
            if number < checkpoint_id:
                self._give_up(number, DeclineReason.NEWER)
            elif number == checkpoint_id:
                open_log.missing.discard(channel)
                self._write_if_complete(number)

    def channel_ended(self, channel: ChannelId) -> None:
        """No barrier comes on a channel any more."""
        for number, open_log in sorted(self._open.items()):
            open_log.missing.discard(channel)
            self._write_if_complete(number)

    def frozen(self, snapshot: TaskSnapshot) -> None:
        """The snapshot is frozen: it is written when its log is complete."""
        number = snapshot.checkpoint_id
        open_log = self._open[number]
        if open_log.is_given_up:
            del self._open[number]
            self._given_up(number, open_log.reason)
            return
        open_log.snapshot = snapshot
        self._write_if_complete(number)

    def abort(self, checkpoint_id: int) -> None:
        """A checkpoint was aborted."""
        if checkpoint_id in self._open:
            self._give_up(checkpoint_id, None)

    def snapshot_ended(self, checkpoint_id: int) -> None:
        """The snapshot was written, or could not be: its log is not read any more."""
        log = self._writing.pop(checkpoint_id, None)
        if log is not None:
            log.close()

    def close(self) -> None:
        """Remove what is on disk."""
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
            # It will be frozen: there is no way to take that back, and what sinks prepare then goes with the next one.
            open_log.is_given_up, open_log.reason = True, reason
            return
        del self._open[number]
        self._given_up(number, reason)


# What was in flight when a snapshot was taken comes before all input of the task that is restored from it.


def replay(
    logged: Iterable[LoggedBuffer],
    inputs: Sequence[TaskInput],
    partitioners: Sequence[Partitioner],
    info: SubtaskInfo,
    key_groups: KeyGroups,
    work: deque[Work],
) -> None:
    """Queue what of it is this subtask's. `inputs`, `partitioners`: of the edges that the log names, in its order."""
    mine = deque(share_of(logged, partitioners, info.subtask, info.parallelism))

    def next_buffer() -> None:
        one = mine.popleft()
        if mine:
            work.appendleft(next_buffer)
        input = inputs[min(one[0], len(inputs) - 1)]
        for segment in reversed(segments_for(one, partitioners, info.subtask, info.parallelism, key_groups)):
            assert isinstance(segment, tuple)
            input.replayed += len(segment[0])
            work.appendleft(partial(input.records, segment, 0))

    if mine:
        work.append(next_buffer)


# What barriers have overtaken: records that are processed behind a snapshot, and belong to it.
#
# Tasks that may take an unaligned checkpoint have this. Others stay aligned:
#
# * those of loops, their heads included: a barrier that overtook within a loop would be back at a head before that head
#   has sent its own, and what follows it would be in two snapshots
# * those with a broadcast input: each subtask has a copy of the broadcast records, and with another parallelism copies
#   would come twice or not at all. Flink aligns broadcast edges for the same reason (FLINK-22815)
# * those with a pointwise input (forward, rescale): nothing tells which subtask a record goes to with another
#   parallelism, and those of one key would go to several. Flink aligns these, too (StreamGraphGenerator)

_ALIGNED = (BroadcastPartitioner, ForwardPartitioner, RescalePartitioner)


def may_overtake(vertex: VertexSpec, level: LevelSpec) -> bool:
    """Whether barriers may overtake records of this task."""
    stays = any(edge.in_loop or isinstance(partitioner, _ALIGNED) for edge, partitioner in vertex.inputs)
    return level.unaligned_after_ms is not None and not stays


class Overtaken:
    """Of one task. `deliver` stands between the alignment and the inputs, and logs what belongs to a snapshot."""

    def __init__(self, parts: TaskParts, logs: SnapshotLogs) -> None:
        self._edges = [edge.id for edge, _ in parts.vertex.inputs]
        self._parallelism = parts.vertex.parallelism
        self._subtask = parts.id.subtask
        self._inputs = parts.inputs
        self._logs = logs
        self._new_queue = parts.new_queue

    def begin(self, checkpoint_id: int, channels: Iterable[InputChannel]) -> None:
        """Barrier `checkpoint_id` has overtaken what comes on these channels before theirs."""
        log = ChannelLog(self._edges, self._parallelism, self._new_queue())
        self._logs.begin(checkpoint_id, log, [channel.id for channel in channels])

    def barrier(self, channel: InputChannel, checkpoint_id: int) -> None:
        """A barrier has come on a channel."""
        self._logs.barrier(channel.id, checkpoint_id)

    def deliver(self, channel: InputChannel, item: Any) -> None:
        """A chunk or an element of a channel, in order. Elements are not logged: those who sent them do so again."""
        # Now, as it came: it may be processed, and changed, before it is written.
        if self._logs and isinstance(item, tuple) and self._logs.misses(channel.id):
            header = Header(NO_KEY_GROUP, channel.id.edge, channel.id.sender, 0, self._subtask, 0)
            self._logs.append(channel.id, encode(header, [item]))
        elif isinstance(item, EndOfInput):
            self._logs.channel_ended(channel.id)
        self._inputs.deliver(channel, item)
