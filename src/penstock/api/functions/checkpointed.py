"""Functions with operator state, and functions notified of checkpoints, with Flink's Java names.

Functions of map, flat_map, filter, reduce and process may implement these as well. Source: Flink docs, "Working with
State", Using Operator State.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock.api.state.state import KeyedStateStore, OperatorStateStore


class FunctionInitializationContext(ABC):
    """What `initialize_state` is given, before `open`."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Whether the operator was restored from a snapshot."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Lists and dicts of this subtask."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """State by key. Raises ProgramError if the stream has no key."""


class FunctionSnapshotContext(ABC):
    """What `snapshot_state` is given, once the barriers have arrived."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Number of the checkpoint; each is higher than the one before."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """When the checkpoint was triggered (ms since the epoch)."""


class CheckpointedFunction(ABC):
    """Has operator state: lists, redistributed when the job is rescaled, or dicts, replicated to all subtasks."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Called before `open`. Obtain states here; restored state is already in them."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Called at a barrier: write to the states what must be retained. They are copied when this returns."""


class CheckpointListener(ABC):
    """Is notified of completed and of aborted checkpoints."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Checkpoint `checkpoint_id` is complete: records before it are not reprocessed. The call is not guaranteed."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Checkpoint `checkpoint_id` failed: the next one that completes covers what it would have. Not guaranteed.

        The call may come before this subtask has taken its snapshot, or after.
        """
