"""`iterate`: bulk iterations, in which each superstep's result is the input of the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from penstock.api.functions.aggregator import Aggregator, ConvergenceCriterion
from penstock.common.functions.script_functions import dumps
from penstock.common.functions.user_calls import RAISED
from penstock.common.time import Time
from penstock.common.types.whole_numbers import as_int
from penstock.datastream.data_stream import DataStream, check_one_environment
from penstock.datastream.functions import CoProcessFunction
from penstock.datastream.iterative_stream import nothing
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.engine.plan.transformations import (
    PartitionTransformation,
    SuperstepsTransformation,
    UnionTransformation,
)
from penstock.engine.plan.upstream import comes_from, unbounded_source_of, upstream
from penstock.engine.runtime.network.edge import FeedbackRole
from penstock.engine.runtime.operators.superstep_head import RESULT, SuperstepHead, SuperstepRules
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
    if supersteps_max is not None and (as_int(supersteps_max) is None or supersteps_max < 1):
        raise ValueError(f"supersteps_max must be an int of 1 or more, or None for no limit, got {supersteps_max!r}")
    if as_int(slack) is None or slack < 0:
        raise ValueError(f"slack must be an int of 0 or more, got {slack!r}")
    for what, named in (("aggregators", aggregators), ("criteria", criteria)):
        if named is not None and not isinstance(named, Mapping):
            raise TypeError(f"{what} must be a dict with their names, got {named!r}")
    rules = SuperstepRules(supersteps_max, slack, dict(aggregators or {}), dict(criteria or {}))
    for missing in rules.criteria.keys() - rules.aggregators.keys():
        raise ValueError(f"there is no aggregator '{missing}' for its criterion; aggregators: {[*rules.aggregators]}")
    for kind, given in ((Aggregator, rules.aggregators), (ConvergenceCriterion, rules.criteria)):
        for key, value in given.items():
            if not isinstance(value, kind):
                raise TypeError(f"expected an object derived from {kind.__name__} for '{key}', got {value!r}")
    for key, aggregator in rules.aggregators.items():
        _check_sent(key, aggregator)
    return SuperstepStream(initial, SuperstepHead(name, rules, is_unbounded(initial, rules)))


def _check_sent(name: str, aggregator: Aggregator[Any]) -> None:
    """Raise TypeError for an aggregator that subtasks could not send to each other."""
    try:
        dumps(aggregator)
    except RAISED as error:
        raise TypeError(
            f"the aggregator '{name}' travels between subtasks, and can't be pickled: {error}. Define its class at the "
            "top level of a module or of the script, and keep values that can be pickled in it"
        ) from error


def is_unbounded(stream: DataStream[Any], rules: SuperstepRules) -> bool:
    """Return whether a stream is unbounded. Raises ValueError if it is, and `rules` are for bounded ones."""
    unbounded = unbounded_source_of(stream._transformation)
    if unbounded is not None and (rules.supersteps_max is not None or rules.criteria or rules.slack):
        raise ValueError(
            f"the source '{unbounded}' is unbounded, so its iteration has no supersteps_max, no criteria and no slack: "
            "it ends when the source has ended and nothing is fed back. Use a bounded source for those"
        )
    return unbounded is not None


def superstep_windows() -> TumblingEventTimeWindows[Any]:
    """Return the assigner of windows with the records of one superstep each."""
    return TumblingEventTimeWindows.of(Time.milliseconds(1))


def check_stream(method: str, stream: Any) -> None:
    """Raise TypeError if what `method` of the API got is not a stream."""
    if not isinstance(stream, DataStream):
        raise TypeError(f"expected a stream for {method}, got {stream!r}")


def check_streams(what: str, streams: Any) -> None:
    """Raise TypeError if `streams`, called `what` in the error, is not a list or tuple of streams."""
    if not isinstance(streams, (list, tuple)):
        raise TypeError(f"{what} must be a list of streams, got {streams!r}")
    for stream in streams:
        check_stream(what, stream)


def check_feedback(method: str, streams: Sequence[Any], heads: Sequence[SuperstepStream[Any]]) -> None:
    """Raise ValueError if an operator of a stream, for `method` of the API, does not come from one of the heads."""
    for stream in streams:
        check_stream(method, stream)
        check_one_environment(method, heads[0], stream)
    waiting = [stream._transformation for stream in streams]
    while waiting:
        one = waiting.pop()
        if isinstance(one, UnionTransformation | PartitionTransformation):
            waiting.extend(one.inputs)
        elif not any(comes_from(one, head._head) for head in heads):
            raise ValueError(
                f"what {method} gets must come from the iteration, but '{one.name}' comes from outside: it has no "
                "supersteps. Derive it from the stream of the iteration, or use replay(stream) or enter(stream) of that"
            )


def is_in_supersteps(stream: DataStream[Any]) -> bool:
    """Return whether a stream is derived from a structured iteration."""
    return any(isinstance(one, SuperstepsTransformation) for one in upstream([stream._transformation]))


class SuperstepStream(DataStream[T]):
    """The workset of an iteration, superstep by superstep. Created by `iterate`."""

    def __init__(self, initial: DataStream[T], head: SuperstepHead) -> None:
        environment = initial.environment
        self._head = SuperstepsTransformation(environment.next_id(), head.name, initial._transformation, head)
        super().__init__(environment, self._head)
        self._entered: list[DataStream[Any]] = []
        self._entering: list[SuperstepStream[Any]] = []
        """The heads of unbounded streams that enter, of which nothing is fed back."""

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
        ends = [stream for stream in (feedback, termination) if stream is not None]
        check_feedback("close_with", [*ends, *outputs], [self, *self._entering])
        if termination is not None and any(head._follows for head in (self, *self._entering)):
            raise ValueError(
                "an iteration with an unbounded stream has no termination: it ends with its input, if at all"
            )
        self._feed_back("close_with", feedback)
        if termination is not None:
            self._count("close_with", termination, FeedbackRole.TERMINATION)
        self._hold_back("close_with", outputs, ends)
        self._close_entering("close_with", [self], ends[:1], outputs)
        return self.result

    def replay(self, stream: DataStream[R]) -> DataStream[R]:
        """Return a stream with all records of `stream` in each superstep of this iteration.

        `stream` comes from outside, and must be bounded; ValueError otherwise. Its records are kept in the memory of
        the subtasks and in operator state, and are emitted at the end of each superstep. Source: Flink ML,
        ReplayableDataStreamList.replay.
        """
        check_stream("replay", stream)
        if is_unbounded(stream, SuperstepRules()):
            raise ValueError(f"replay() needs a bounded stream, because it keeps all records of '{stream.get_name()}'")
        return self._connected("replay", stream, replay_function()).name("Replay")

    def enter(self, stream: DataStream[R]) -> DataStream[R]:
        """Return `stream`, which comes from outside, as a stream of this iteration, with its records in superstep 0.

        So listeners are called also where no stream of the iteration is connected. Records of an unbounded stream are
        in the superstep that begins next when they arrive; such a stream has to enter, and can't be connected itself.
        """
        check_stream("enter", stream)
        check_one_environment("enter", self, stream)
        rules = self._rules
        if is_unbounded(stream, rules):
            head: SuperstepStream[R] = SuperstepStream(stream, SuperstepHead("Enter", rules, follows=True))
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
    def _rules(self) -> SuperstepRules:
        assert isinstance(self._head.operator, SuperstepHead)
        return self._head.operator.rules

    @property
    def _follows(self) -> bool:
        """Whether its supersteps follow an unbounded stream."""
        return isinstance(self._head.operator, SuperstepHead) and self._head.operator.follows

    @property
    def result(self) -> DataStream[T]:
        """The last workset: what the last superstep has fed back."""
        return self.get_side_output(RESULT)

    # Internal to the package.

    def _decide_with(self, other: SuperstepStream[Any]) -> None:
        """Be a head of the iteration of another one: they decide the same, from the same feedback."""
        self._head.iteration = other._head.iteration

    def _check_open(self) -> None:
        """Raise ValueError if the iteration is closed."""
        if self._head.feedback:
            raise ValueError(f"'{self._head.name}' is closed already: union the streams, and close it with the result")

    def _feed_back(self, method: str, stream: DataStream[T], role: FeedbackRole = FeedbackRole.WORKSET) -> None:
        """Feed a stream back, for `method` of the API."""
        check_one_environment(method, self, stream)
        self._head.feedback.append(stream._transformation)
        self._head.feedback_role = role

    def _hold_back(self, method: str, outputs: Sequence[DataStream[Any]], fed_back: Sequence[DataStream[Any]]) -> None:
        """Run what leads to `outputs`, and what has entered, in the supersteps: they end when these have ended.

        A head waits for what leads to a stream that is fed back anyway.
        """
        for output in (*outputs, *self._entered):
            operator = output._transformation
            while operator.edge_kind is not None and len(operator.inputs) == 1:
                operator = operator.inputs[0]
            if not any(comes_from(stream._transformation, operator) for stream in fed_back):
                self._count(method, output, FeedbackRole.ENDS)

    def _close_entering(
        self,
        method: str,
        heads: Sequence[SuperstepStream[Any]],
        fed_back: Sequence[DataStream[Any]],
        outputs: Sequence[DataStream[Any]],
    ) -> None:
        """Connect the heads of entering streams: all heads must get the same ends, so that they decide the same."""
        for entered in self._entering:
            for stream in fed_back:
                entered._count(method, stream, FeedbackRole.COUNT)
            entered._hold_back(method, [*outputs, *self._entered], fed_back)
        all_heads = (*heads, *self._entering)
        for one in all_heads if self._entering else ():
            # Nothing of it is fed back, but all have to know when it has ended a superstep, and which barrier waits.
            if not any(comes_from(stream._transformation, one._head) for stream in fed_back):
                for head in all_heads:
                    head._count(method, one, FeedbackRole.ENDS)

    def _count(self, method: str, stream: DataStream[Any], role: FeedbackRole) -> None:
        """Count the records of a stream in each superstep, for `method` of the API."""
        check_one_environment(method, self, stream)
        self._head.counted.append((stream._transformation, role))
