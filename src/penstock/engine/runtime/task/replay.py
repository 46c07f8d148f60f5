"""What was in flight when a snapshot was taken comes before all input of the task that is restored from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial

from penstock.engine.runtime.network.channel_log import LoggedBuffer, segments_for, share_of
from penstock.engine.runtime.network.partitioners import Partitioner
from penstock.engine.runtime.task.context import SubtaskInfo
from penstock.engine.runtime.task.inputs import TaskInput, Work
from penstock.engine.state.key_groups import KeyGroups


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
