"""Mutation tests of what connections lose that break: a fault is put into the job master, and some seed must fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.mutation import found_by_seeds

from penstock.engine.jobmaster.attempt import SlotConnections
from penstock.engine.rpc.messages import Heartbeat

pytestmark = pytest.mark.simulation


def losses_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """A slot that has connected again goes on as though nothing was lost."""
    patch.setattr(SlotConnections, "fault", lambda self, slot, connection, report: None)


def first_connection_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    """A connection that broke before the driver heard of it lost nothing: not even that the slot's tasks are open."""
    fault = SlotConnections.fault

    def uncounted(self: SlotConnections, slot: Any, connection: bytes, report: Any) -> Any:
        return fault(self, slot, connection, Heartbeat([]) if isinstance(report, Heartbeat) else report)

    patch.setattr(SlotConnections, "fault", uncounted)


FAULTS = [losses_not_noticed, first_connection_not_looked_at]
CUTS: dict[str, Any] = {
    "checkpoint_at_steps": tuple(range(0, 800, 30)), "checkpoint_timeout_ms": 3_000, "cancel_at_step": None,
    "cut_at_steps": tuple(range(20, 800, 60)), "crash_at_steps": (), "crash_rate": 0.0, "concurrent_max": 3,
    "freeze_at_steps": (), "driver_crash_at_steps": (), "driver_crash_rate": 0.0, "stopped_rate": 0.0,
}  # fmt: skip
EARLY = {**CUTS, "cut_at_steps": tuple(range(2, 200, 9))}
"""Before the driver has heard of a connection."""
FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = {losses_not_noticed: 41, first_connection_not_looked_at: 75}
"""The seed that is known to find it. The search begins there and goes on."""
PATIENCE_STEPS = 12_000
"""Of a job that waits for ever: without the fault the program that finds it ends in fewer steps."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass a job master that loses output with a connection, and its result would be worthless."""
    fault(monkeypatch)
    provoked = EARLY if fault is first_connection_not_looked_at else CUTS
    found_by_seeds(monkeypatch, FIRST.get(fault, 0), provoked, patience_steps=PATIENCE_STEPS)
