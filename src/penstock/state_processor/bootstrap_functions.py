"""Functions that convert records to state. Source: Flink docs, "State Processor API", Writing New Savepoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeAlias, TypeVar

from penstock.api.functions.checkpointed import CheckpointedFunction
from penstock.api.functions.function import Function
from penstock.api.timers import TimerService

K = TypeVar("K")
IN = TypeVar("IN")


class _BootstrapContext(ABC):
    """Context of the current record."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Return the event timestamp (ms) of the record, or None."""


class _KeyedBootstrapContext(_BootstrapContext):
    """Context of the current record of a keyed stream."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """Return the key of the record."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Return the timer service of the key. Timers do not fire here; they become part of the savepoint."""


class KeyedStateBootstrapFunction(Function, Generic[K, IN]):
    """Fills the states of a key. Obtain them in `open`, with the descriptors of the job that will restore them."""

    Context: TypeAlias = _KeyedBootstrapContext

    @abstractmethod
    def process_element(self, value: IN, ctx: _KeyedBootstrapContext) -> None:
        """Store `value` in the states of its key."""


class StateBootstrapFunction(Function, CheckpointedFunction, Generic[IN]):
    """Fills operator state: lists, obtained in `initialize_state`. Each subtask processes some of the records."""

    Context: TypeAlias = _BootstrapContext

    @abstractmethod
    def process_element(self, value: IN, ctx: _BootstrapContext) -> None:
        """Process `value`; update states here, or in `snapshot_state`, which is called at the end."""


class BroadcastStateBootstrapFunction(StateBootstrapFunction[IN]):
    """Fills broadcast state. One subtask processes all records."""
