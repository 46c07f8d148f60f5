"""Functions that keep state of their subtask, and functions that want to hear of checkpoints, by Flink's Java names.

Any function of a map, flat_map, filter, reduce or process may be one as well. Source: Flink docs, "Working with
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
    """Keeps operator state: lists that are dealt out anew when the job is rescaled, or dicts that all subtasks hold."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Called before `open`: the place to ask for states, which hold already what was restored."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """A barrier has come: put into the states what is to be kept. It is copied when this returns."""


class CheckpointListener(ABC):
    """Hears of checkpoints."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Checkpoint `checkpoint_id` is complete: what was done before it will not be done again. May not be called."""
