"""Hybrid sources under random schedules: the output equals that of one source with all splits."""

from __future__ import annotations

from random import Random

import pytest
from tests.simulation.programs import FIRST_SWEPT, sweeps

from penstock.connectors.hybrid.enumerator import HybridEnumerator
from penstock.hosts.simulator import Circumstances, SimulationError, run_program
from penstock.hosts.simulator.generation import generate
from penstock.hosts.simulator.hybrid_sources import with_hybrid_sources

pytestmark = pytest.mark.simulation

SEEDS_IN_CI = 5
SEEDS_IN_SOAK = 3_000
FIRST_SEED = 29
"""The seed that is known to find the fault. The search begins there and goes on."""


def programs(seeds: int = SEEDS_IN_CI) -> list:
    """Return generated programs with a hybrid source, each with its seed."""
    made = [(seed, with_hybrid_sources(generate(seed))) for seed in range(FIRST_SWEPT, FIRST_SWEPT + seeds)]
    return [(seed, program) for seed, program in made if any("cut" in node.settings for node in program.nodes)]


@pytest.mark.parametrize("seeds", sweeps(SEEDS_IN_CI, SEEDS_IN_SOAK))
def test_hybrid_sources_give_what_a_plain_evaluation_gives(seeds: int) -> None:
    """Records around the switch would be lost, doubled or misdated under some timing, or the job would never end."""
    chosen = programs(seeds)
    assert len(chosen) > seeds // 3
    assert {program.batched for _, program in chosen} == {True, False}
    for seed, program in chosen:
        run_program(program, Circumstances.draw(Random(seed + 1)), seed, named=False)


@pytest.mark.thorough
def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass a job that loses its position if it is restored during a switch."""

    def without_index(self: HybridEnumerator) -> object:
        return sound(self).__class__(0, None, [])

    sound = HybridEnumerator.snapshot_state
    monkeypatch.setattr(HybridEnumerator, "snapshot_state", without_index)
    with pytest.raises(SimulationError):
        for seed, program in programs(FIRST_SEED + 100):
            if seed >= FIRST_SEED:
                run_program(program, Circumstances.draw(Random(seed + 1)), seed, named=False)
