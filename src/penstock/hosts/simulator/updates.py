"""Other functions for a simulated job while it runs: they do the same, and know which version they are of."""

from __future__ import annotations

import pickle
from collections.abc import Iterable

from penstock.engine.plan import program_pickler
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.task.slot import Slot


def other_version(graph: JobGraph, version: int) -> JobGraph:
    """The plan with functions of that version, as it would arrive from its user."""
    other: JobGraph = pickle.loads(program_pickler.dumps(graph))
    for vertex in other.vertices:
        for node in vertex.nodes:
            if not node.operator.holds_functions:
                for place in node.operator.function_places():
                    vars(_of_user(place.function))["version"] = version
    return other


def check_versions(graph: JobGraph, slots: Iterable[Slot]) -> None:
    """Assert that the functions of all tasks are of the version that the plan says."""
    planned = {vertex.id: [_versions(node.operator) for node in vertex.nodes] for vertex in graph.vertices}
    for slot in slots:
        for vertex, task in slot.tasks.items():
            running = [_versions(operator) for operator in task.chain.operators]
            assert running == planned[vertex], (
                f"{task.info}: functions of versions {running}, planned {planned[vertex]}"
            )


def _versions(operator: Operator) -> list[int]:
    return [vars(_of_user(place.function)).get("version", 0) for place in operator.function_places()]


def _of_user(function: UserFunction) -> object:
    instance = function.instance
    return getattr(instance, "stands_for", instance)
