"""Mutation tests of the simulator: faults of buffer debloating, by which a job stops or its records change order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.mutation import found_by_seeds

from penstock.engine.runtime.network import debloating
from penstock.engine.runtime.network.debloating import InFlight
from penstock.engine.runtime.task.slot import Slot

pytestmark = pytest.mark.simulation

HOLDING: dict[str, Any] = {
    "in_flight_ms": 20, "in_flight_bytes": 60, "advice_lost_rate": 1.0, "advice_false_rate": 0.0,
    "cancel_at_step": None,
}  # fmt: skip
STEP_LIMIT = 8_000
"""Of a job that holds for ever: without the fault the program that finds it ends in fewer steps."""


def a_limit_never_lapses(patch: pytest.MonkeyPatch) -> None:
    """A slot whose receivers' advice is lost, or wrong, holds for ever."""
    for limit in ("LAPSE_MS", "FIRST_LAPSE_MS"):
        patch.setattr(debloating, limit, 1 << 50)


def nobody_wakes_a_slot_that_holds(patch: pytest.MonkeyPatch) -> None:
    """A slot that holds waits for advice only, and not until its limit lapses."""
    patch.setattr(InFlight, "lapse_ms", lambda self: None)


def rows_that_wait_are_overtaken(patch: pytest.MonkeyPatch) -> None:
    """What arrives while others wait is taken first."""
    receive = Slot.receive

    def first(self: Any, buffer: bytes) -> None:
        receive(self, buffer)
        self._arrived.rotate(1)

    patch.setattr(Slot, "receive", first)


FAULTS = [
    a_limit_never_lapses,
    nobody_wakes_a_slot_that_holds,
    rows_that_wait_are_overtaken,
]
FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = {a_limit_never_lapses: 9, nobody_wakes_a_slot_that_holds: 9}
"""The seed that is known to find it. The search begins there and goes on."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass advice that stops a job, or rows that overtake each other."""
    fault(monkeypatch)
    found_by_seeds(monkeypatch, FIRST.get(fault, 0), HOLDING, step_limit=STEP_LIMIT)
