"""Functions that make state out of records. Source: Flink docs, "State Processor API", Writing New Savepoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeAlias, TypeVar

from penstock.api.functions.checkpointed import CheckpointedFunction
from penstock.api.functions.function import Function
from penstock.api.timers import TimerService

K = TypeVar("K")
IN = TypeVar("IN")


class _BootstrapContext(ABC):
    """What may be asked about the record."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Event time (ms) of the record; None if it has none."""


class _KeyedBootstrapContext(_BootstrapContext):
    """The same for keyed streams."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """The key of the record."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Where timers of the key are registered: none fires, they are part of the savepoint."""


class KeyedStateBootstrapFunction(Function, Generic[K, IN]):
    """Fills the states of a key. In `open` states are asked for by the descriptors of the job that is to start."""

    Context: TypeAlias = _KeyedBootstrapContext

    @abstractmethod
    def process_element(self, value: IN, ctx: _KeyedBootstrapContext) -> None:
        """Put what is to be known of `value` into the states of its key."""


class StateBootstrapFunction(Function, CheckpointedFunction, Generic[IN]):
    """Fills operator state: lists, asked for in `initialize_state`. Each subtask sees some of the records."""

    Context: TypeAlias = _BootstrapContext

    @abstractmethod
    def process_element(self, value: IN, ctx: _BootstrapContext) -> None:
        """Take note of `value`; states are filled at once, or in `snapshot_state`, which is called at the end."""


class BroadcastStateBootstrapFunction(StateBootstrapFunction[IN]):
    """Fills broadcast state. One subtask sees all records."""
