"""Assign the transactions that subtasks of earlier attempts left in an external system to the writers that end them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.api.sink import SinkContext


class FormerSubtasks(NamedTuple):
    """The subtasks of all earlier attempts whose transactions one writer ends.

    At any parallelism, before and after, each of those subtasks has one such writer: the writer that restored the state
    of the subtask with that number in the checkpoint. A later attempt may have had more subtasks than the checkpoint,
    and left transactions that are in no state: they belong to the writer that restored the subtask congruent to theirs.
    """

    owners: tuple[tuple[int, int], ...]
    """(subtask, parallelism) of the restored states."""

    @classmethod
    def of(cls, context: SinkContext, restored: Iterable[tuple[int, int]]) -> FormerSubtasks:
        """Return the subtasks of the writer with that context.

        `restored`: (subtask, parallelism) of its restored states. A job that starts without a checkpoint has no states:
        each subtask ends the transactions of its own number. Without checkpointing a subtask ends no transactions.
        """
        owners = tuple(restored)
        if not owners and not context.is_restored:
            owners = ((context.subtask, context.parallelism),)
        return cls(owners if context.checkpointing else ())

    def include(self, subtask: int) -> bool:
        """Return whether this writer ends the transactions that the subtask left."""
        return any(subtask % parallelism == owner for owner, parallelism in self.owners)
