"""Mutation tests of messages that broken connections lose: some seed must find each fault of the job master."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.mutation import found_by_seeds

from penstock.engine.jobmaster.attempt import SlotConnections
from penstock.engine.rpc.messages import Heartbeat

pytestmark = pytest.mark.simulation


def losses_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """A slot that has connected again continues as if no message was lost."""
    patch.setattr(SlotConnections, "find_fault", lambda self, slot, connection, report: None)


def first_connection_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    """A connection that broke before the driver knew it lost no message, not even the slot's registration."""
    find_fault = SlotConnections.find_fault

    def uncounted(self: SlotConnections, slot: Any, connection: bytes, report: Any) -> Any:
        return find_fault(self, slot, connection, Heartbeat([]) if isinstance(report, Heartbeat) else report)

    patch.setattr(SlotConnections, "find_fault", uncounted)


FAULTS = [losses_not_noticed, first_connection_not_looked_at]
CUTS: dict[str, Any] = {
    "checkpoint_at_steps": tuple(range(0, 800, 30)), "checkpoint_timeout_ms": 3_000, "cancel_at_step": None,
    "cut_at_steps": tuple(range(20, 800, 60)), "crash_at_steps": (), "crash_rate": 0.0, "concurrent_max": 3,
    "freeze_at_steps": (), "driver_crash_at_steps": (), "driver_crash_rate": 0.0, "stopped_rate": 0.0,
}  # fmt: skip
EARLY = {**CUTS, "cut_at_steps": tuple(range(2, 200, 9))}
"""Cuts before the driver knows a connection."""
FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = {losses_not_noticed: 41, first_connection_not_looked_at: 75}
"""The seed that is known to find the fault. The search starts there."""
STEP_LIMIT = 12_000
"""For jobs that wait forever: without the fault the program that finds it ends in fewer steps."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass a job master that loses output with a connection, and its result would be worthless."""
    fault(monkeypatch)
    provoked = EARLY if fault is first_connection_not_looked_at else CUTS
    found_by_seeds(monkeypatch, FIRST.get(fault, 0), provoked, step_limit=STEP_LIMIT)
