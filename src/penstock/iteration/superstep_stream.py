"""`iterate`: bulk iterations, in which each superstep's result is the input of the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from penstock.api.functions.aggregator import Aggregator, ConvergenceCriterion
from penstock.common.time import Time
from penstock.datastream.data_stream import DataStream, check_one_environment
from penstock.datastream.functions import CoProcessFunction
from penstock.datastream.iterative_stream import nothing
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.engine.plan.transformations import SuperstepsTransformation
from penstock.engine.runtime.network.edge import FeedbackRole
from penstock.engine.runtime.operators.superstep_head import RESULT, SuperstepHead
from penstock.iteration.arguments import (
    check_from_inside,
    check_rules_of_unbounded,
    check_stream,
    check_streams,
    is_unbounded,
    superstep_rules,
)
from penstock.iteration.closing import FedBack, close_iteration
from penstock.iteration.replay import enter_function, replay_function

T = TypeVar("T")
R = TypeVar("R")


def iterate(
    initial: DataStream[T],
    supersteps_max: int | None = None,
    *,
    aggregators: Mapping[str, Aggregator[Any]] | None = None,
    criteria: Mapping[str, ConvergenceCriterion[Any]] | None = None,
    slack: int = 0,
    name: str = "Iteration",
) -> SuperstepStream[T]:
    """Begin a bulk iteration: return the stream of the workset, which is `initial` in superstep 0.

    It ends after `supersteps_max` supersteps, after one that feeds nothing back, when the stream for termination of
    `close_with` had no record in a superstep, or when one of `criteria` says so of the aggregator of its name. Raises
    ValueError if `supersteps_max` is less than 1, `slack` less than 0, or for a criterion without an aggregator, and
    TypeError for another argument of a wrong type. Source: Flink's DataSet.iterate.

    `initial` may be unbounded. Then superstep 0 has nothing of it, and each later one has what was fed back, and what
    has arrived in the meantime; without either, the next superstep waits. Such an iteration ends when its input has
    ended and nothing is fed back: ValueError for another end, or with slack.

    `slack`: how many supersteps a subtask may be ahead of the slowest one (stale-synchronous). What is fed back in
    superstep k is then in one from k + 1 - slack to k + 1 + slack, aggregates are those of `slack` supersteps earlier,
    and the iteration ends `slack` supersteps later: use it for results that do not depend on the order of updates.
    """
    check_stream("iterate", initial)
    rules = superstep_rules(supersteps_max, slack, aggregators, criteria)
    check_rules_of_unbounded(initial, rules)
    return SuperstepStream(initial, SuperstepHead(name, rules, is_unbounded(initial)))


def superstep_windows() -> TumblingEventTimeWindows[Any]:
    """Return the assigner of windows with the records of one superstep each."""
    return TumblingEventTimeWindows.of(Time.milliseconds(1))


class SuperstepStream(DataStream[T]):
    """The workset of an iteration, superstep by superstep. Created by `iterate`."""

    def __init__(self, initial: DataStream[T], head: SuperstepHead) -> None:
        environment = initial.environment
        self._head = SuperstepsTransformation(environment.next_id(), head.name, initial._transformation, head)
        super().__init__(environment, self._head)
        self._rules = head.rules
        self._is_unbounded = head.is_unbounded
        self._entered: list[DataStream[Any]] = []
        """The bounded streams that have entered the iteration. All heads of an iteration have the same list."""
        self._entering: list[SuperstepStream[Any]] = []
        """The heads of unbounded streams that enter it, to which nothing is fed back. Also one list."""

    def close_with(
        self,
        feedback: DataStream[T],
        termination: DataStream[Any] | None = None,
        outputs: Sequence[DataStream[Any]] = (),
    ) -> DataStream[T]:
        """Feed `feedback` back as the next workset. Return the last workset: the result of the iteration.

        The feedback keeps its partitioning, or has that of the initial stream. With `termination` the iteration also
        ends after a superstep in which that stream has no record. `outputs`: other streams that leave the iteration;
        the functions up to there run in its supersteps, too. Call it once. Raises ValueError if a stream does not come
        from this iteration.
        """
        self._check_open()
        check_streams("outputs", outputs)
        fed_back = [feedback] if termination is None else [feedback, termination]
        check_from_inside("close_with", [*fed_back, *outputs], [self, *self._entering])
        if termination is not None and any(head._is_unbounded for head in (self, *self._entering)):
            raise ValueError(
                "an iteration with an unbounded stream has no termination: it ends with its input, if at all"
            )
        self._close([self._fed_back(feedback)], termination, outputs)
        return self.result

    def replay(self, stream: DataStream[R]) -> DataStream[R]:
        """Return a stream with all records of `stream` in each superstep of this iteration.

        `stream` comes from outside, and must be bounded; ValueError otherwise. Its records are kept in the memory of
        the subtasks and in operator state, and are emitted at the end of each superstep. Source: Flink ML,
        ReplayableDataStreamList.replay.
        """
        check_stream("replay", stream)
        if is_unbounded(stream):
            raise ValueError(f"replay() needs a bounded stream, because it keeps all records of '{stream.get_name()}'")
        return self._connected("replay", stream, replay_function()).name("Replay")

    def enter(self, stream: DataStream[R]) -> DataStream[R]:
        """Return `stream`, which comes from outside, as a stream of this iteration, with its records in superstep 0.

        So listeners are called also where no stream of the iteration is connected. Records of an unbounded stream are
        in the superstep that begins next when they arrive; such a stream has to enter, and can't be connected itself.
        """
        check_stream("enter", stream)
        check_one_environment("enter", self, stream)
        check_rules_of_unbounded(stream, self._rules)
        if is_unbounded(stream):
            head: SuperstepStream[R] = SuperstepStream(stream, SuperstepHead("Enter", self._rules, is_unbounded=True))
            head._decide_with(self)
            self._entering.append(head)
            return head
        return self._connected("enter", stream, enter_function()).name("Enter")

    def _connected(
        self, method: str, stream: DataStream[R], function: CoProcessFunction[Any, Any, Any]
    ) -> DataStream[R]:
        check_one_environment(method, self, stream)
        ends: DataStream[Any] = self.filter(nothing).name("Ends of supersteps")
        entered = ends.connect(stream).process(function)
        self._entered.append(entered)
        return entered

    @property
    def result(self) -> DataStream[T]:
        """The last workset: what the last superstep has fed back."""
        return self.get_side_output(RESULT)

    # Internal to the package.

    def _decide_with(self, other: SuperstepStream[Any]) -> None:
        """Be a head of the iteration of another one: they decide the same, from the same feedback."""
        self._head.iteration = other._head.iteration
        self._entered, self._entering = other._entered, other._entering

    def _check_open(self) -> None:
        """Raise ValueError if the iteration is closed."""
        if self._head.feedback:
            raise ValueError(f"'{self._head.name}' is closed already: union the streams, and close it with the result")

    def _fed_back(self, stream: DataStream[T], role: FeedbackRole = FeedbackRole.WORKSET) -> FedBack:
        """Return a stream that is to be fed back to this head."""
        return FedBack(self._head, stream._transformation, role)

    def _close(
        self, fed_back: Sequence[FedBack], termination: DataStream[Any] | None, outputs: Sequence[DataStream[Any]]
    ) -> None:
        """Close the iteration of this head. `fed_back`: a stream for each head with a workset or a delta."""
        close_iteration(
            fed_back,
            entering=[head._head for head in self._entering],
            termination=None if termination is None else termination._transformation,
            awaited=[stream._transformation for stream in (*outputs, *self._entered)],
        )
