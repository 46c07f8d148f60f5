"""What barriers have overtaken: records that are processed behind a snapshot, and belong to it.

Tasks that may take an unaligned checkpoint have this. Others stay aligned:

* those of loops, their heads included: a barrier that overtook within a loop would be back at a head before that head
  has sent its own, and what follows it would be in two snapshots
* those with a broadcast input: each subtask has a copy of the broadcast records, and with another parallelism copies
  would come twice or not at all. Flink aligns broadcast edges for the same reason (FLINK-22815)
* those with a pointwise input (forward, rescale): nothing tells which subtask a record goes to with another
  parallelism, and those of one key would go to several. Flink aligns these, too (StreamGraphGenerator)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, Header, encode
from penstock.engine.runtime.network.channel_log import ChannelLog
from penstock.engine.runtime.network.elements import EndOfInput
from penstock.engine.runtime.network.partitioners import BroadcastPartitioner, ForwardPartitioner, RescalePartitioner
from penstock.engine.runtime.task.inputs import InputChannel
from penstock.engine.runtime.task.parts import TaskParts
from penstock.engine.runtime.task.snapshot_logs import SnapshotLogs
from penstock.engine.runtime.task.vertex import LevelSpec, VertexSpec

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
