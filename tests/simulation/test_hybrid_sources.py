"""Hybrid sources under random schedules: they give what one source with all the splits gives."""

from __future__ import annotations

from random import Random

import pytest

from penstock.connectors.hybrid.enumerator import HybridEnumerator
from penstock.hosts.simulator import Circumstances, SimulationError, run_program
from penstock.hosts.simulator.generation import generate
from penstock.hosts.simulator.in_turn import in_turn

pytestmark = pytest.mark.simulation

SEEDS_IN_CI = 12
SEEDS_IN_SOAK = 3_000


def programs(seeds: int = SEEDS_IN_CI) -> list:
    """Generated programs with a hybrid source, and their seeds."""
    made = [(seed, in_turn(generate(seed))) for seed in range(seeds)]
    return [(seed, program) for seed, program in made if any("cut" in node.settings for node in program.nodes)]


@pytest.mark.parametrize("seeds", [SEEDS_IN_CI, pytest.param(SEEDS_IN_SOAK, marks=pytest.mark.soak)])
def test_hybrid_sources_give_what_a_plain_evaluation_gives(seeds: int) -> None:
    """Records around the switch would be lost, doubled or misdated under some timing, or the job would never end."""
    chosen = programs(seeds)
    assert len(chosen) > seeds // 3
    assert {program.batched for _, program in chosen} == {True, False}
    for seed, program in chosen:
        run_program(program, Circumstances.draw(Random(seed + 1)), seed, named=False)


def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would call it sound that a job restored during a switch forgets where it was."""

    def without_index(self: HybridEnumerator) -> object:
        return sound(self).__class__(0, None, [])

    sound = HybridEnumerator.snapshot_state
    monkeypatch.setattr(HybridEnumerator, "snapshot_state", without_index)
    with pytest.raises(SimulationError):
        for seed, program in programs():
            run_program(program, Circumstances.draw(Random(seed + 1)), seed, named=False)
