"""Programs with long chains under random schedules: checkpoints, failures and pauses between deferred inputs."""

from __future__ import annotations

import dataclasses
from random import Random

import pytest
from tests.simulation.programs import FIRST_SWEPT, sweeps

from penstock.engine.runtime.task.chain import DEPTH_MAX
from penstock.hosts.simulator import Circumstances, run_program
from penstock.hosts.simulator.generation import generate
from penstock.hosts.simulator.programs import Node, Program

pytestmark = pytest.mark.simulation

SEEDS_IN_CI = 2
SEEDS_IN_SOAK = 2_000


def lengthened(program: Program, by: int) -> Program:
    """Return the program with `by` maps before each sink, which change nothing."""
    nodes: list[Node] = []
    next_id = max(node.id for node in program.nodes) + 1
    for node in program.nodes:
        before = node.inputs
        if node in program.sinks:
            for _ in range(by):
                nodes.append(Node(next_id, "map", before, node.parallelism, {"amount": 0}))
                before = (next_id,)
                next_id += 1
        nodes.append(dataclasses.replace(node, inputs=before))
    return dataclasses.replace(program, nodes=tuple(nodes))


@pytest.mark.parametrize("seeds", sweeps(SEEDS_IN_CI, SEEDS_IN_SOAK))
def test_long_chains_give_what_a_plain_evaluation_gives(seeds: int) -> None:
    """A barrier would overtake records that are deferred in a long chain, and a restart would lose or double them."""
    swept = range(FIRST_SWEPT, FIRST_SWEPT + seeds)
    programs = {seed: lengthened(generate(seed), DEPTH_MAX * 3 // 2) for seed in swept}
    assert {program.batched for program in programs.values()} == {True, False}
    for seed, program in programs.items():
        run_program(program, Circumstances.draw(Random(seed + 1)), seed, named=False)
