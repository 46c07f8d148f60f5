"""Records in flight to a task when a snapshot was taken: how the snapshot stores them, and how a restore shares them.

They belong to the snapshot of their receiver, because the snapshots of their senders are past them. Records in flight
are the feedback to the head of an iteration, from the time it sends the barrier until the barrier comes back (Algorithm
2 of Carbone et al., "State Management in Apache Flink", 2017), and the records that a barrier has overtaken.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.common.errors import CheckpointError
from penstock.engine.runtime.chunks import Chunk, ChunkKind, Rows
from penstock.engine.runtime.network.buffer import HEADER_BYTES, decode_header, decode_items
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.partitioners import LoggedPlace, Partitioner
from penstock.engine.runtime.network.set_aside import BufferQueue
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.pickles import dumps
from penstock.engine.state.unpickling import StateUnpickler

if TYPE_CHECKING:
    from penstock.engine.runtime.columns.chunk import Columns

LoggedBuffer = tuple[int, int, int, bytes]
"""(index of the incoming edge, parallelism at that time, index of the receiving subtask, content of the buffer)

Content: pickled rows, as in a buffer, or columns with their schema (engine/runtime/columns/stored_chunks.py).
"""

LoggedEdge = tuple[EdgeInfo, Partitioner]
STREAM_START = b"\xff\xff\xff\xff"
"""The first bytes of columns. Those of a pickle differ."""


class ChannelLog:
    """Buffers as a list of LoggedBuffer that can be read repeatedly. `edges`: in the task's order."""

    def __init__(self, edges: Sequence[EdgeInfo], parallelism: int, buffers: BufferQueue) -> None:
        self._edges = {edge.id: (index, edge) for index, edge in enumerate(edges)}
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
            index, edge = self._edges[header.edge]
            yield index, self._parallelism, header.target, _as_stored(buffer, header.kind, edge)

    def close(self) -> None:
        """Drop the buffers: the log is written, or no longer needed."""
        self._buffers.close()


def _as_stored(buffer: bytes, kind: int, edge: EdgeInfo) -> bytes:
    """Return the content of a buffer as state is: instances of users' classes by names of their fields."""
    if kind == ChunkKind.COLUMNS:
        from penstock.engine.runtime.columns.stored_chunks import as_stored

        return as_stored(decode_items(buffer), edge)  # type: ignore[arg-type]
    content = buffer[HEADER_BYTES:]
    # Without this opcode the pickle names no class.
    return dumps(pickle.loads(content)) if pickle.STACK_GLOBAL in content else content


def share_of(
    logged: Iterable[LoggedBuffer], edges: Sequence[LoggedEdge], subtask: int, parallelism: int
) -> Iterator[LoggedBuffer]:
    """Yield the buffers that hold records for a subtask. `edges`: in the task's order."""
    for position, (edge, before, receiver, buffer) in enumerate(logged):
        if before == parallelism:
            is_included = receiver == subtask
        else:
            _, partitioner = edges[min(edge, len(edges) - 1)]
            place = LoggedPlace(position, receiver, before)
            is_included = partitioner.may_hold_records_of(subtask, place, parallelism)
        if is_included:
            yield edge, before, receiver, buffer


def chunks_for(
    logged: LoggedBuffer,
    edges: Sequence[LoggedEdge],
    *,
    subtask: int,
    parallelism: int,
    key_groups: KeyGroups,
) -> Sequence[Chunk]:
    """Return the chunks of a buffer of `share_of` for a subtask. Raises CheckpointError for another kind of chunk."""
    index, before, _, buffer = logged
    edge, partitioner = edges[min(index, len(edges) - 1)]
    if buffer.startswith(STREAM_START):
        return _columns_for(
            buffer, edge, None if before == parallelism else partitioner, subtask, key_groups=key_groups
        )
    if edge.kind is not ChunkKind.ROWS and not edge.mixes_rows:
        raise CheckpointError(
            "the checkpoint has records in flight as rows, where this program has columns: restore it with the program "
            "that took it, and take a savepoint, which has no records in flight"
        )
    # Unpickled as state is: classes may have other names by now, or more fields.
    chunks = [Rows(*chunk) for chunk in StateUnpickler(io.BytesIO(buffer)).load_complete()]
    receiver_of = partitioner.receiver_of(parallelism, key_groups)
    if before == parallelism or receiver_of is None:
        return chunks
    selected: list[Rows] = []
    for chunk in chunks:
        indexes = [index for index, value in enumerate(chunk.values) if receiver_of(value) == subtask]
        if indexes:
            selected.append(chunk.selected(indexes))
    return selected


def _columns_for(
    buffer: bytes, edge: EdgeInfo, partitioner: Partitioner | None, subtask: int, *, key_groups: KeyGroups
) -> list[Columns]:
    """Return the columns for a subtask. `partitioner`: None if the parallelism is as before."""
    from penstock.engine.runtime.columns.stored_chunks import from_stored

    chunks = from_stored(buffer, edge.schema)
    if partitioner is None:
        return chunks
    parts = [partitioner.part_of_columns(chunk, subtask, edge, key_groups) for chunk in chunks]
    return [part for part in parts if len(part)]
