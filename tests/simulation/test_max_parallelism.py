"""Operators with key groups of their own number: keys go to the subtasks that have their state."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

import msgspec
import pytest
from tests.simulation.mutation import until_found
from tests.simulation.programs import seeds
from tests.simulation.undisturbed import circumstances_with, programs_that

from penstock.engine.runtime.network.output import OutputEdge
from penstock.engine.runtime.task import task
from penstock.engine.runtime.task.context import SubtaskInfo
from penstock.engine.runtime.task.vertex import VertexSpec
from penstock.hosts.simulator import run_program
from penstock.hosts.simulator.programs import Program

pytestmark = pytest.mark.simulation

KEYED = {"reduce", "echo", "gather", "window"}
NUMBERS = (8, 9, 13, 128)


def has_state_of_keys(program: Program) -> bool:
    """Return whether a program keeps something for keys, and can have other parallelisms."""
    kinds = {node.kind for node in program.nodes}
    broadcasts = any(node.settings.get("how") == "broadcast" for node in program.nodes)
    return bool(kinds & KEYED) and not program.batched and not broadcasts and program.max_parallelism is None


def with_numbers(program: Program, seed: int) -> Program:
    """Return the program with a maximum parallelism for each keyed operator."""
    random = Random(seed)
    nodes = (
        dataclasses.replace(node, settings={**node.settings, "max_parallelism": random.choice(NUMBERS)})
        if node.kind in KEYED
        else node
        for node in program.nodes
    )
    return dataclasses.replace(program, nodes=tuple(nodes))


def run(seed: int, program: Program) -> None:
    """Run a program that is rescaled after each crash."""
    often = {"checkpoint_interval_ms": 20, "crash_at_steps": (150, 300, 500), "rescale_rate": 1.0}
    run_program(with_numbers(program, seed), circumstances_with(seed, **often), seed)


@pytest.mark.parametrize("number", seeds((0, 1, 4), in_soak=1_000))
def test_keys_go_to_their_state_after_a_rescale(number: int) -> None:
    """State would be in one subtask, and later records of its key in another: two results, both wrong."""
    run(*list(programs_that(has_state_of_keys, number + 1))[-1])


@pytest.mark.thorough
def test_keys_that_go_by_the_sender_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys went to subtasks by the key groups of the sender."""
    edges = task.output_edges

    def by_sender(vertex: VertexSpec, info: SubtaskInfo, *others: Any, **named: Any) -> list[OutputEdge]:
        own = {"target_max_parallelism": vertex.max_parallelism}
        outputs = [(msgspec.structs.replace(edge, **own), partitioner) for edge, partitioner in vertex.outputs]
        return edges(dataclasses.replace(vertex, outputs=outputs), info, *others, **named)

    monkeypatch.setattr(task, "output_edges", by_sender)
    until_found(monkeypatch, programs_that(has_state_of_keys, 200), run)
