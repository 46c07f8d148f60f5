"""The driver's end of results in the simulator: sinks that publish to `Outside`, on a pool without threads."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from penstock.api.sink import Committer
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.sink import CollectOperator, SinkOperator
from penstock.hosts.simulator.outside import Outside


def collecting_sinks(graph: JobGraph) -> frozenset[int]:
    """Return the sinks whose results go to the program."""
    return frozenset(operator.sink_id for operator in _operators(graph) if isinstance(operator, CollectOperator))


def committers_of(graph: JobGraph) -> dict[int, Committer]:
    """Return the committers of sinks that have one. What generated programs write is published in `Outside` instead."""
    found = {
        operator.sink_id: operator.sink.create_committer()
        for operator in _operators(graph)
        if isinstance(operator, SinkOperator)
    }
    return {id: committer for id, committer in found.items() if committer is not None}


def _operators(graph: JobGraph) -> list[Operator]:
    return [node.operator for vertex in graph.vertices for node in vertex.nodes]


class SeededPool:
    """Calls wait until the scheduler picks one, in random order across lanes. All are lost when the driver dies."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._calls: list[Callable[[], None]] = []

    def submit(self, call: Callable[[], None], /) -> None:
        """Queue a call."""
        self._calls.append(call)

    def shutdown(self, wait: bool = True) -> None:
        """Do nothing: there are no threads."""

    @property
    def has_calls(self) -> bool:
        """Whether calls are queued."""
        return bool(self._calls)

    def run_one(self) -> None:
        """Run a random queued call."""
        self._calls.pop(self._random.randrange(len(self._calls)))()


class OutsideSink(ResultSink):
    """A sink of a simulated job. `failure_rate`: the probability that a commit fails."""

    exactly_once = True

    def __init__(self, id: int, outside: Outside, random: Random, failure_rate: float) -> None:
        self.failure_rate = failure_rate
        self._id = id
        self._outside = outside
        self._random = random
        self._accepted: list[tuple[int, list[Any]]] = []
        """Committables of a job without a checkpoint interval, which belong to no checkpoint."""

    def accept(self, subtask: int, values: list[Any]) -> None:
        self._accepted.append((subtask, values))

    def restarted(self) -> None:
        self._accepted.clear()

    def succeeded(self) -> None:
        for subtask, values in self._accepted:
            self._outside.collect(self._id, subtask, values)

    def commit(self, subtask: int, values: list[Any]) -> None:
        if self._random.random() < self.failure_rate:
            raise OSError("the external system is unavailable")
        self._outside.commit(self._id, subtask, values)

    def abort(self, subtask: int, values: list[Any]) -> None:
        self._outside.abort(values)
