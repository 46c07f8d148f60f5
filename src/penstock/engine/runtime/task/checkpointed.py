"""Contexts of functions that keep operator state: at the start, and at each checkpoint."""

from __future__ import annotations

from penstock.api.functions.checkpointed import FunctionInitializationContext, FunctionSnapshotContext
from penstock.api.state.state import KeyedStateStore, OperatorStateStore
from penstock.common.errors import ProgramError


class StateInitializationContext(FunctionInitializationContext):
    """The argument of `initialize_state`, which is called before `open`."""

    def __init__(self, operator_states: OperatorStateStore, keyed: KeyedStateStore | None, is_restored: bool) -> None:
        self._operator_states = operator_states
        self._keyed = keyed
        self._is_restored = is_restored

    def is_restored(self) -> bool:
        return self._is_restored

    def get_operator_state_store(self) -> OperatorStateStore:
        return self._operator_states

    def get_keyed_state_store(self) -> KeyedStateStore:
        if self._keyed is None:
            raise ProgramError("keyed state needs a keyed stream: call key_by before")
        return self._keyed


class StateSnapshotContext(FunctionSnapshotContext):
    """The argument of `snapshot_state`, which is called when the barriers have arrived."""

    def __init__(self, checkpoint_id: int, checkpoint_timestamp: int) -> None:
        self._checkpoint_id = checkpoint_id
        self._checkpoint_timestamp = checkpoint_timestamp

    def get_checkpoint_id(self) -> int:
        return self._checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        return self._checkpoint_timestamp
