"""`iterate_delta`: iterations with a solution set, of which a superstep changes only what its workset touches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from penstock.api.functions.aggregator import Aggregator, ConvergenceCriterion
from penstock.datastream.data_stream import DataStream
from penstock.datastream.iterative_stream import nothing
from penstock.datastream.next_call import Unfinished
from penstock.engine.runtime.network.edge import FeedbackRole
from penstock.iteration.arguments import check_from_inside, check_stream, check_streams, is_unbounded
from penstock.iteration.solution_set import SOLUTION, SolutionSet, last_entries
from penstock.iteration.superstep_stream import SuperstepStream, iterate

E = TypeVar("E")
W = TypeVar("W")


def iterate_delta(
    initial_solution: DataStream[E],
    initial_workset: DataStream[W],
    supersteps_max: int | None = None,
    *,
    key: Callable[[E], Any],
    aggregators: Mapping[str, Aggregator[Any]] | None = None,
    criteria: Mapping[str, ConvergenceCriterion[Any]] | None = None,
    deferred: bool = False,
    slack: int = 0,
    name: str = "Delta iteration",
) -> DeltaIteration[E, W]:
    """Begin a delta iteration: a solution set with one entry per `key`, and a workset.

    It ends when a superstep feeds nothing back as the workset, and otherwise like `iterate`. Of several initial entries
    with a key one is kept. Both streams may be unbounded: then new input becomes workset of the running iteration, new
    entries replace those of their keys, and `solution_set.changes`, as one of `outputs`, has the results.

    `deferred`: any stream may be the delta, which the next superstep sees; and `solution_set.co_group` may be called
    several times. It costs a second feedback and a copy of the solution set per call, and one behind the iteration.
    `slack`: as for `iterate`; ValueError with `deferred`, whose updates need an order. Source: Flink's
    DataSet.iterateDelta.
    """
    check_stream("iterate_delta", initial_solution)
    if deferred and slack:
        raise ValueError("a deferred delta iteration has no slack: an older entry of a key could replace a newer one")
    rules: dict[str, Any] = {"aggregators": aggregators, "criteria": criteria, "slack": slack}
    workset = iterate(initial_workset, supersteps_max, name=name, **rules)
    delta: SuperstepStream[E] | None = None
    if deferred:
        none = initial_solution.filter(nothing).name("Empty delta")
        delta = iterate(none, supersteps_max, name=f"{name}: delta", **rules)
        delta._decide_with(workset)
    if is_unbounded(initial_solution):
        initial_solution = workset.enter(initial_solution)
    return DeltaIteration(workset, delta, initial_solution, key)


class DeltaIteration(Unfinished, Generic[E, W]):
    """A delta iteration that is not closed yet: use `workset` and `solution_set` in its step, then `close_with`."""

    next_call = "its workset, its solution_set, and close_with(delta, workset)"

    def __init__(
        self,
        workset: SuperstepStream[W],
        delta: SuperstepStream[E] | None,
        initial_solution: DataStream[E],
        key: Callable[[E], Any],
    ) -> None:
        self.workset = workset
        """The workset, superstep by superstep."""
        self.solution_set: SolutionSet[E] = SolutionSet(initial_solution, key, delta)
        """The solution set, which messages change."""
        self._delta = delta
        self._initial_solution = initial_solution
        self._key = key

    def close_with(
        self, delta: DataStream[E], workset: DataStream[W], outputs: Sequence[DataStream[Any]] = ()
    ) -> DataStream[E]:
        """Feed `workset` back. Return the solution set as it is at the end, an entry for each key.

        `delta`: the changes that `solution_set.co_group` has returned, which has applied them; with `deferred` any
        stream of the iteration with new entries: of several with a key in a superstep one is kept. `outputs`: as
        for `SuperstepStream.close_with`. Raises ValueError for another stream, or if it was called before.
        """
        check_streams("outputs", outputs)
        if self._delta is not None:
            return self._close_deferred(self._delta, delta, workset, [*outputs, *self.solution_set._grouped])
        if self.solution_set.changes is None or delta is not self.solution_set.changes:
            raise ValueError(
                "the delta must be the stream that solution_set.co_group has returned; for another one begin the "
                "iteration with iterate_delta(deferred=True)"
            )
        self.workset.close_with(workset, outputs=[*outputs, *self.solution_set._grouped])
        return delta.get_side_output(SOLUTION)

    def _close_deferred(
        self,
        head: SuperstepStream[E],
        delta: DataStream[E],
        workset: DataStream[W],
        outputs: Sequence[DataStream[Any]],
    ) -> DataStream[E]:
        self.workset._check_open()
        heads: list[SuperstepStream[Any]] = [self.workset, head, *self.workset._entering]
        check_from_inside("close_with", [delta, workset, *outputs], heads)
        fed_back = [self.workset._fed_back(workset), head._fed_back(delta, FeedbackRole.DELTA)]
        self.workset._close(fed_back, None, outputs)
        return last_entries(self._initial_solution, head.union(head.result), self._key)
