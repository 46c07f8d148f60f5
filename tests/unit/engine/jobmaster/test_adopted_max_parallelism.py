"""A maximum parallelism that the program does not set is that of the state from which it starts."""

from __future__ import annotations

import msgspec
import pytest
from tests.simulation.programs import environment, graph_of
from tests.unit.engine.checkpoint.manifests import manifest_of

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.manifest import Manifest, OperatorPart
from penstock.engine.checkpoint.restore import assign
from penstock.engine.jobmaster.checkpoint_vertices import adopt_max_parallelism, checkpoint_vertices
from penstock.engine.plan.job_graph import JobGraph


def program(parallelism: int, its_own: int | None = None) -> JobGraph:
    """A program with a keyed operator of the uid `op`."""
    env = environment(parallelism)
    counted = env.from_collection([1, 2]).key_by(lambda value: value).reduce(lambda a, b: a + b).uid("op")
    if its_own is not None:
        counted.set_max_parallelism(its_own)
    counted.print()
    return graph_of(env)


def written_with(max_parallelism: int) -> Manifest:
    manifest = manifest_of(1, ["file"])
    (part,) = manifest.operators
    assert isinstance(part, OperatorPart)
    return msgspec.structs.replace(manifest, operators=[msgspec.structs.replace(part, max_parallelism=max_parallelism)])


def maximum(graph: JobGraph) -> int:
    (vertex,) = [vertex for vertex in graph.vertices if any(node.uid == "op" for node in vertex.nodes)]
    return vertex.max_parallelism


@pytest.mark.parametrize(("parallelism", "of_state"), [(100, 128), (80, 256), (1, 4_096)])
def test_a_job_that_sets_none_takes_that_of_its_state(parallelism: int, of_state: int) -> None:
    """With more than 85 subtasks it could not start from a savepoint of a smaller job, nor from one that was written
    by a program. Source: Flink, StateAssignmentOperation.checkParallelismPreconditions."""
    graph, manifest = program(parallelism), written_with(of_state)
    assert maximum(graph) != of_state
    adopt_max_parallelism(graph, manifest)
    assert maximum(graph) == of_state
    assert assign(manifest, checkpoint_vertices(graph), owns_files=False, allow_non_restored=False)


@pytest.mark.parametrize(("parallelism", "its_own"), [(200, None), (2, 64)])
def test_one_that_is_set_or_does_not_suffice_stays(parallelism: int, its_own: int | None) -> None:
    """The bound that a user has set would be another one without a word."""
    graph, manifest = program(parallelism, its_own), written_with(128)
    before = maximum(graph)
    adopt_max_parallelism(graph, manifest)
    assert maximum(graph) == before
    with pytest.raises(CheckpointError, match="its state was written with 128"):
        assign(manifest, checkpoint_vertices(graph), owns_files=False, allow_non_restored=False)
