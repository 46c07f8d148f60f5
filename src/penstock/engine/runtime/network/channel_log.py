"""Records in flight to a task when a snapshot was taken: how the snapshot stores them, and how a restore shares them.

They belong to the snapshot of their receiver, because the snapshots of their senders are past them. Records in flight
are the feedback to the head of an iteration, from the time it sends the barrier until the barrier comes back (Algorithm
2 of Carbone et al., "State Management in Apache Flink", 2017), and the records that a barrier has overtaken.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Iterator, Sequence

from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.network.buffer import HEADER_BYTES, decode_header
from penstock.engine.runtime.network.partitioners import LoggedPlace, Partitioner
from penstock.engine.runtime.network.set_aside import BufferQueue
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.pickles import dumps
from penstock.engine.state.unpickling import StateUnpickler

LoggedBuffer = tuple[int, int, int, bytes]
"""(index of the incoming edge, parallelism at that time, index of the receiving subtask, buffer without its header)"""


class ChannelLog:
    """Buffers as a list of LoggedBuffer that can be read repeatedly. `edges`: ids of edges, in the task's order."""

    def __init__(self, edges: Sequence[int], parallelism: int, buffers: BufferQueue) -> None:
        self._edges = {edge: index for index, edge in enumerate(edges)}
        self._parallelism = parallelism
        self._buffers = buffers
        self.bytes = 0

    def append(self, buffer: bytes) -> None:
        """Add a buffer that was in flight."""
        self._buffers.append(buffer)
        self.bytes += len(buffer)

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._buffers)

    def __iter__(self) -> Iterator[LoggedBuffer]:
        for buffer in self._buffers:
            header = decode_header(buffer)
            yield self._edges[header.edge], self._parallelism, header.target, _as_stored(buffer[HEADER_BYTES:])

    def close(self) -> None:
        """Drop the buffers: the log is written, or no longer needed."""
        self._buffers.close()


def _as_stored(buffer: bytes) -> bytes:
    """Return a buffer with its records pickled as state is: instances of users' classes by names of their fields."""
    # Without this opcode the pickle names no class.
    return dumps(pickle.loads(buffer)) if pickle.STACK_GLOBAL in buffer else buffer


def share_of(
    logged: Iterable[LoggedBuffer], partitioners: Sequence[Partitioner], subtask: int, parallelism: int
) -> Iterator[LoggedBuffer]:
    """Yield the buffers that hold records for a subtask. `partitioners`: of the edges, in the task's order."""
    for position, (edge, before, receiver, buffer) in enumerate(logged):
        if before == parallelism:
            is_included = receiver == subtask
        else:
            partitioner = partitioners[min(edge, len(partitioners) - 1)]
            place = LoggedPlace(position, receiver, before)
            is_included = partitioner.may_hold_records_of(subtask, place, parallelism)
        if is_included:
            yield edge, before, receiver, buffer


def chunks_for(
    logged: LoggedBuffer,
    partitioners: Sequence[Partitioner],
    *,
    subtask: int,
    parallelism: int,
    key_groups: KeyGroups,
) -> list[Rows]:
    """Return the chunks of a buffer of `share_of` for a subtask."""
    edge, before, _, buffer = logged
    # Unpickled as state is: classes may have other names by now, or more fields.
    chunks = [Rows(*chunk) for chunk in StateUnpickler(io.BytesIO(buffer)).load_complete()]
    partitioner = partitioners[min(edge, len(partitioners) - 1)]
    receiver_of = partitioner.receiver_of(parallelism, key_groups)
    if before == parallelism or receiver_of is None:
        return chunks
    selected: list[Rows] = []
    for chunk in chunks:
        indexes = [index for index, value in enumerate(chunk.values) if receiver_of(value) == subtask]
        if indexes:
            selected.append(chunk.selected(indexes))
    return selected
