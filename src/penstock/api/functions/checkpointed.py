"""Functions with operator state, and functions notified of checkpoints, with Flink's Java names.

The functions of map, flat_map, filter, reduce and process may implement these interfaces as well. Source: Flink docs,
"Working with State", Using Operator State.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock.api.state.state import KeyedStateStore, OperatorStateStore


class FunctionInitializationContext(ABC):
    """The argument of `initialize_state`: whether the operator is restored, and its states."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Return whether the operator was restored from a snapshot."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the store of this subtask's lists and dicts."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Return the store of keyed state. Its methods raise ProgramError if the stream has no key."""


class FunctionSnapshotContext(ABC):
    """The argument of `snapshot_state`: which checkpoint is being taken."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Return the id of the checkpoint. Ids increase."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Return when the checkpoint was triggered (ms since the epoch)."""


class CheckpointedFunction(ABC):
    """Has operator state: lists, which a rescale redistributes, or dicts, which all subtasks hold alike."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Obtain states. Called before `open`; restored state is already in them."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Write to the states what must be retained. Called at the barrier; the states are copied after the call."""


class CheckpointListener(ABC):
    """Receives notifications of completed and aborted checkpoints."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Act on a completed checkpoint: records before it are not reprocessed. The call is not guaranteed."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Act on an aborted checkpoint: the next completed one covers its records. The call is not guaranteed.

        It may come before or after this subtask takes its snapshot.
        """
