"""Values that functions go on changing, under random schedules: what arrives is what was emitted."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from tests.simulation.undisturbed import programs_that

from penstock.common.values.copies import as_it_is
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.task import chain
from penstock.hosts.simulator import Circumstances, SimulationError, run_program
from penstock.hosts.simulator.changing import FORMS
from penstock.hosts.simulator.programs import Program

pytestmark = pytest.mark.simulation

PROGRAMS_IN_CI = 24
PROGRAMS_IN_SOAK = 5_000


def changes_values(program: Program) -> bool:
    """Whether it has a function that changes what it has emitted."""
    return any(node.kind == "held" for node in program.nodes)


def run(count: int) -> set[str]:
    """Run so many of these programs. Returns the forms of values in them."""
    forms = set()
    for seed, program in programs_that(changes_values, count):
        run_program(program, Circumstances.draw(Random(seed + 1)), seed)
        forms |= {node.settings["form"] for node in program.nodes if node.kind == "held"}
    return forms


@pytest.mark.parametrize("count", [PROGRAMS_IN_CI, pytest.param(PROGRAMS_IN_SOAK, marks=pytest.mark.soak)])
def test_values_arrive_as_they_were_emitted(count: int) -> None:
    """Under some timing a reader would see what a function did to its value afterwards."""
    assert run(count) == set(FORMS)


def nothing_copied_when_it_is_emitted(patch: pytest.MonkeyPatch) -> None:
    """Values go on by reference, and are pickled when their buffer is sent."""
    patch.setattr(Operator, "own", staticmethod(as_it_is))


def nothing_copied_at_a_fork(patch: pytest.MonkeyPatch) -> None:
    """All readers of a stream in one chain are given the same objects."""
    patch.setattr(chain, "own_copies", as_it_is)


@pytest.mark.parametrize("fault", [nothing_copied_when_it_is_emitted, nothing_copied_at_a_fork])
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass a runtime that hands values on by reference."""
    fault(monkeypatch)
    with pytest.raises(SimulationError):
        run(200)
