"""Functions that keep operator state, and functions that are notified of checkpoints, by Flink's Java names.

A function of a map, flat_map, filter, reduce or process may implement these as well. Source: Flink docs, "Working with
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
    """Keeps operator state: lists that are redistributed when the job is rescaled, or dicts that all subtasks hold."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Called before `open`. Get the states here; they hold already what was restored."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Put into the states what the snapshot is to hold. They are copied when this returns."""


class CheckpointListener(ABC):
    """Is notified of checkpoints."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Checkpoint `checkpoint_id` is complete: what was processed before it is not processed again.

        Not every completed checkpoint is notified: after a failure a notification may be missing.
        """
