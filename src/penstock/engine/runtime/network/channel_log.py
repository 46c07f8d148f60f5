"""What was in flight to a task when a snapshot was taken, as the snapshot holds it, and how it is given out again.

It belongs to the task that it was on its way to: its senders have it behind them in their snapshots. That is what comes
back to the head of an iteration, from the time it sends the barrier until the barrier comes back (Algorithm 2 of
Carbone et al., "State Management in Apache Flink", 2017), and what a barrier has overtaken.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence

from penstock.engine.runtime.network.buffer import HEADER_BYTES, Segment, decode_header
from penstock.engine.runtime.network.partitioners import (
    BroadcastPartitioner,
    CustomPartitioner,
    GlobalPartitioner,
    HashPartitioner,
    Partitioner,
)
from penstock.engine.runtime.network.set_aside import BufferQueue
from penstock.engine.state.container_keys import as_key
from penstock.engine.state.gained_fields import StateUnpickler
from penstock.engine.state.key_groups import KeyGroups, subtask_of
from penstock.engine.state.pickles import dumps

LoggedBuffer = tuple[int, int, int, bytes]
"""(which of the edges that lead to it, how many subtasks the task had, which of them, the buffer without its header)"""


class ChannelLog:
    """Buffers, as a list of LoggedBuffer that can be read again and again. `edges`: their ids, in the task's order."""

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
        """It is written, or not needed any more."""
        self._buffers.close()


def _as_stored(buffer: bytes) -> bytes:
    """The records of a buffer as state is stored: those of users' classes by the names of their fields."""
    # No class is named in it if it lacks this opcode.
    return dumps(pickle.loads(buffer)) if pickle.STACK_GLOBAL in buffer else buffer


def share_of(
    logged: Iterable[LoggedBuffer], partitioners: Sequence[Partitioner], subtask: int, parallelism: int
) -> Iterator[LoggedBuffer]:
    """The buffers that are, or hold records, for a subtask. `partitioners`: those of the edges, in the task's order."""
    for position, (edge, before, receiver, buffer) in enumerate(logged):
        partitioner = partitioners[min(edge, len(partitioners) - 1)]
        if before == parallelism:
            mine = receiver == subtask
        elif isinstance(partitioner, (HashPartitioner, CustomPartitioner)):
            mine = True
        elif isinstance(partitioner, BroadcastPartitioner):
            # Each of those before had a copy of its own.
            mine = receiver == subtask % before
        elif isinstance(partitioner, GlobalPartitioner):
            mine = subtask == 0
        else:
            mine = position % parallelism == subtask
        if mine:
            yield edge, before, receiver, buffer


def segments_for(
    logged: LoggedBuffer, partitioners: Sequence[Partitioner], subtask: int, parallelism: int, key_groups: KeyGroups
) -> list[Segment]:
    """What a buffer of `share_of` holds for a subtask."""
    edge, before, _, buffer = logged
    # As all that is restored: classes may have other names by now, or more fields.
    segments: list[Segment] = StateUnpickler(io.BytesIO(buffer)).load_complete()
    partitioner = partitioners[min(edge, len(partitioners) - 1)]
    goes_to = _receiver(partitioner, parallelism, key_groups)
    if before == parallelism or goes_to is None:
        return segments
    kept: list[Segment] = []
    for segment in segments:
        assert isinstance(segment, tuple)
        values, timestamps = segment
        chosen = [index for index, value in enumerate(values) if goes_to(value) == subtask]
        if chosen:
            times = None if timestamps is None else [timestamps[index] for index in chosen]
            kept.append(([values[index] for index in chosen], times))
    return kept


def _receiver(partitioner: Partitioner, parallelism: int, key_groups: KeyGroups) -> Callable[[object], int] | None:
    """Which subtask a record belongs to; None if any will do."""
    if isinstance(partitioner, HashPartitioner):
        select = partitioner.key_selector
        return lambda value: subtask_of(key_groups[as_key(select(value))], key_groups.max_parallelism, parallelism)
    if isinstance(partitioner, CustomPartitioner):
        partition, select_key = partitioner.partition, partitioner.key_selector
        return lambda value: partition(select_key(value), parallelism)
    return None
