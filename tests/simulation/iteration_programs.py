"""What tests of structured iterations share: a small graph, joins of a superstep, and runs of programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.programs import environment, explained, simulate

from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.hosts.simulator import Circumstances
from penstock.iteration import superstep_windows

CALM = Circumstances(jump_rate=0.0)
VERTICES = range(1, 10)
EDGES = [(1, 2), (1, 3), (2, 3), (2, 4), (4, 6), (5, 6), (7, 8), (7, 9), (8, 9)]
"""The graph of Flink's tests of aggregators, each edge in one direction."""
BOTH_WAYS = [*EDGES, *((target, source) for source, target in EDGES)]
COMPONENTS = [(vertex, 1 if vertex < 7 else 7) for vertex in VERTICES]

Make = Callable[[StreamExecutionEnvironment], Any]


def results(make: Make, parallelism: int = 2, seed: int = 1, circumstances: Circumstances = CALM) -> list[Any]:
    """Run a program that has to finish. `make` returns its stream of results. Returns them, sorted."""
    env = environment(parallelism)
    make(env).print()
    simulation = simulate(env, seed, circumstances)
    with explained(simulation):
        assert simulation.run() is JobStatus.FINISHED
    return sorted(value for values in simulation.results.values() for value in values)


def first(record: Any) -> Any:
    """Return the first field of a record."""
    return record[0]


def joined(left: Any, right: Any, function: Callable[[Any, Any], Any]) -> Any:
    """Join two streams of an iteration by their first fields, in each superstep."""
    return left.join(right).where(first).equal_to(first).window(superstep_windows()).apply(function)


def least(candidates: Any) -> Any:
    """Return the smallest record of each first field, in each superstep."""
    return candidates.key_by(first).window(superstep_windows()).reduce(lambda one, other: min(one, other))


def to_neighbour(vertex: Any, edge: Any) -> Any:
    """Send the component of a vertex over an edge."""
    return edge[1], vertex[1]
