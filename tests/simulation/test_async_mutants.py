"""Mutation tests of the simulator: some seed must find each fault of asynchronous functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.mutation import found_by_seeds

from penstock.engine.runtime.operators.async_wait import AsyncWaitOperator, OrderedQueue, UnorderedQueue
from penstock.engine.runtime.operators.stateless import FunctionOperator

pytestmark = pytest.mark.simulation

OFTEN = {
    "checkpoint_at_steps": tuple(range(0, 800, 40)), "checkpoint_timeout_ms": 3_000, "cancel_at_step": None,
    "crash_at_steps": (100, 200, 300), "crash_rate": 0.9,
}  # fmt: skip


def in_flight_left_out(patch: pytest.MonkeyPatch) -> None:
    """Snapshots leave out calls in flight."""
    patch.setattr(AsyncWaitOperator, "lists", FunctionOperator.lists)


def complete_left_out(patch: pytest.MonkeyPatch) -> None:
    """Snapshots leave out complete results that are not emitted yet."""
    for queue in (OrderedQueue, UnorderedQueue):
        every = queue.__iter__
        patch.setattr(queue, "__iter__", lambda self, every=every: (e for e in every(self) if e.results is None))


def overtaken_marks(patch: pytest.MonkeyPatch) -> None:
    """A watermark is emitted immediately, before the records that it follows."""
    patch.setattr(AsyncWaitOperator, "_in_turn", lambda self, mark: bool(mark()))


def ends_with_calls_in_flight(patch: pytest.MonkeyPatch) -> None:
    """The end of the input does not wait for calls."""
    patch.setattr(AsyncWaitOperator, "finish", lambda self: True)


FAULTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    in_flight_left_out, complete_left_out, overtaken_marks, ends_with_calls_in_flight,
]  # fmt: skip
PROVOKED: dict[Callable[[pytest.MonkeyPatch], None], dict[str, Any]] = {
    in_flight_left_out: OFTEN, complete_left_out: OFTEN,
}  # fmt: skip


FIRST = {in_flight_left_out: 293, complete_left_out: 1257, overtaken_marks: 361}
"""The seed to start with, to save time."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass an operator that loses records."""
    fault(monkeypatch)
    found_by_seeds(monkeypatch, FIRST.get(fault, 0), PROVOKED.get(fault), all_kinds=True, with_kind="async_add")
