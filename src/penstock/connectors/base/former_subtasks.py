"""Which subtasks of earlier attempts a writer answers for: it ends what they have left in an external system."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.api.sink import SinkContext


class FormerSubtasks(NamedTuple):
    """Subtasks of all earlier attempts whose transactions one writer ends.

    Each has one such writer, whatever the parallelism was and is: the one that has restored the state of the subtask
    of that number in the checkpoint. An attempt since may have had more subtasks than the checkpoint, and has left
    transactions that are in no state: they belong to whoever restored the subtask that is congruent to theirs.
    """

    owners: tuple[tuple[int, int], ...]
    """(subtask, parallelism) of the restored states."""

    @classmethod
    def of(cls, context: SinkContext, restored: Iterable[tuple[int, int]]) -> FormerSubtasks:
        """Those of the writer with that context; `restored`: (subtask, parallelism) of its restored states.

        A job that starts without a checkpoint has no states: each subtask answers for its own number. One without
        checkpointing at all answers for none.
        """
        owners = tuple(restored)
        if not owners and not context.is_restored:
            owners = ((context.subtask, context.parallelism),)
        return cls(owners if context.checkpointing else ())

    def include(self, subtask: int) -> bool:
        """Whether what this subtask has left is the writer's to end."""
        return any(subtask % parallelism == owner for owner, parallelism in self.owners)
