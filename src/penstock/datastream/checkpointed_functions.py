"""Functions with operator state, and functions notified of checkpoints, with Flink's Java names.

Functions of map, flat_map, filter, reduce and process may implement these as well. Source: Flink docs, "Working with
State", Using Operator State.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock.runtime.task.checkpointed import FunctionInitializationContext, FunctionSnapshotContext

__all__ = [
    "CheckpointListener",
    "CheckpointedFunction",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
]


class CheckpointedFunction(ABC):
    """Has operator state: lists, redistributed when the job is rescaled, or dicts, replicated to all subtasks."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Called before `open`. Obtain states here; restored state is already in them."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Called at a barrier: write to the states what must be retained. They are copied when this returns."""


class CheckpointListener(ABC):
    """Is notified of completed checkpoints."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Checkpoint `checkpoint_id` is complete: records before it are not reprocessed. The call is not guaranteed."""
