"""Operators with several inputs under random schedules: the output equals that of a union of these inputs."""

from __future__ import annotations

from random import Random

import pytest
from tests.simulation.programs import sweeps

from penstock.engine.runtime.time.watermarks import CombinedWatermark
from penstock.hosts.simulator import Circumstances, SimulationError, run_program
from penstock.hosts.simulator.connected_streams import with_connected_streams
from penstock.hosts.simulator.generation import generate

pytestmark = pytest.mark.simulation

SEEDS_IN_CI = 16
SEEDS_IN_SOAK = 10_000


def programs(seeds: int = SEEDS_IN_CI) -> list:
    """Return generated programs with a replaced union, each with its seed."""
    made = [(seed, with_connected_streams(generate(seed))) for seed in range(seeds)]
    return [(seed, program) for seed, program in made if any(node.kind == "connect" for node in program.nodes)]


@pytest.mark.parametrize("seeds", sweeps(SEEDS_IN_CI, SEEDS_IN_SOAK))
def test_several_inputs_give_what_a_plain_evaluation_gives(seeds: int) -> None:
    """Connected streams would lose, double or misdate records under some timing, or the job would never end."""
    chosen = programs(seeds)
    assert len(chosen) > seeds // 10
    assert {program.batched for _, program in chosen} == {True, False}
    for seed, program in chosen:
        run_program(program, Circumstances.draw(Random(seed + 1)), seed, named=False)


@pytest.mark.thorough
def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass a runtime in which the fastest input, not the slowest one, determines event time."""

    def fastest(self: CombinedWatermark, index: int, timestamp: int) -> bool:
        advanced = timestamp > self.current
        self.current = max(self.current, timestamp)
        return advanced

    monkeypatch.setattr(CombinedWatermark, "watermark", fastest)
    with pytest.raises(SimulationError, match="after watermark"):
        for seed, program in programs():
            run_program(program, Circumstances.draw(Random(seed + 1)), seed, named=False)
