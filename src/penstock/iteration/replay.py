"""Streams that enter an iteration: all their records in superstep 0, or in each superstep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.api.functions.checkpointed import CheckpointedFunction
from penstock.api.state.descriptors import ListStateDescriptor
from penstock.datastream.functions import CoProcessFunction
from penstock.iteration.listener import IterationListener


def replay_function() -> CoProcessFunction[Any, Any, Any]:
    """Return a function that emits the records of its second input in each superstep. The first input is empty."""
    return _Replay()


def enter_function() -> CoProcessFunction[Any, Any, Any]:
    """Return a function that emits the records of its second input in superstep 0. The first input is empty."""
    return _Enter()


class _Replay(CoProcessFunction[Any, Any, Any], IterationListener, CheckpointedFunction):
    replays = True
    """For `penstock explain`."""

    def __init__(self) -> None:
        self._records: list[Any] = []

    def initialize_state(self, context: Any) -> None:
        self._state = context.get_operator_state_store().get_list_state(ListStateDescriptor("records"))
        self._records = list(self._state.get())

    def snapshot_state(self, context: Any) -> None:
        self._state.update(self._records)

    def process_element1(self, value: Any, ctx: Any) -> None:
        raise AssertionError("the first input is only there for the ends of supersteps")

    def process_element2(self, value: Any, ctx: Any) -> None:
        self._records.append(value)

    def on_epoch_watermark_incremented(self, epoch_watermark: int, context: Any) -> Iterator[Any]:
        yield from self._records


class _Enter(CoProcessFunction[Any, Any, Any]):
    def process_element1(self, value: Any, ctx: Any) -> None:
        raise AssertionError("the first input is only there for the ends of supersteps")

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value
