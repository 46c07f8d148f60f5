"""Iterations over several streams. Source: FLIP-176, Flink ML's `org.apache.flink.iteration.Iterations`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from penstock.api.functions.aggregator import Aggregator, ConvergenceCriterion
from penstock.datastream.data_stream import DataStream
from penstock.datastream.iterative_stream import comes_from
from penstock.engine.runtime.network.edge import FeedbackRole
from penstock.iteration.replayable_data_streams import ReplayableDataStreamList
from penstock.iteration.superstep_stream import SuperstepStream, check_feedback, iterate


class IterationConfig(msgspec.Struct, frozen=True):
    """Settings of an iteration: its largest number of supersteps, its aggregators, and criteria by their names.

    `slack`: how many supersteps a subtask may be ahead of the slowest one; see `iterate`.
    """

    supersteps_max: int | None = None
    aggregators: Mapping[str, Aggregator[Any]] = {}
    criteria: Mapping[str, ConvergenceCriterion[Any]] = {}
    slack: int = 0


class IterationBodyResult(NamedTuple):
    """The streams that the body of an iteration returns."""

    feedback_variable_streams: Sequence[DataStream[Any]]
    """The stream that is fed back to each variable stream, in their order."""
    output_streams: Sequence[DataStream[Any]] = ()
    """The streams that leave the iteration."""
    termination_criteria: DataStream[Any] | None = None
    """The iteration ends after a superstep in which this stream has no record."""


class IterationBody(Protocol):
    """A function that builds the operators of an iteration from its variable streams and its data streams."""

    def __call__(
        self, variable_streams: Sequence[DataStream[Any]], data_streams: Sequence[DataStream[Any]], /
    ) -> IterationBodyResult:
        """Build the operators."""


class Iterations:
    """Iterations over several variable streams, which are fed back, and data streams, which are not."""

    @staticmethod
    def iterate_bounded_streams_until_termination(
        init_variable_streams: Sequence[DataStream[Any]],
        data_streams: Sequence[DataStream[Any]] | ReplayableDataStreamList,
        config: IterationConfig,
        body: IterationBody,
    ) -> list[DataStream[Any]]:
        """Iterate until a superstep feeds nothing back, or as `config` and the body's termination say.

        All streams must be bounded. Superstep 0 ends when they have ended: the body has all records of the data streams
        by then, and keeps what it needs of them, unless they are replayed (`ReplayableDataStreamList`). Returns the
        output streams of the body. Raises ValueError if the body feeds back another number of streams than there are
        variables, or streams from outside.
        """
        if not init_variable_streams:
            raise ValueError("an iteration needs at least one variable stream")
        heads: list[SuperstepStream[Any]] = [
            iterate(
                stream,
                config.supersteps_max,
                aggregators=config.aggregators,
                criteria=config.criteria,
                slack=config.slack,
            )
            for stream in init_variable_streams
        ]
        for head in heads:
            head.decide_with(heads[0])
        result = body(heads, [*_entered(data_streams, heads[0])])
        feedback = result.feedback_variable_streams
        _check_number(result, len(heads))
        criteria = [] if result.termination_criteria is None else [result.termination_criteria]
        check_feedback("the iteration", [*feedback, *criteria], heads)
        heads[0].hold_back("the iteration", _derived(result.output_streams, heads), [*feedback, *criteria])
        for head, stream in zip(heads, feedback, strict=True):
            head.feed_back("the iteration", stream)
            for other in feedback:
                # All heads decide when the iteration ends, so each has to know of all feedback.
                if other is not stream:
                    head.count("the iteration", other, FeedbackRole.COUNT)
            for other_head in heads:
                # A variable that nothing is derived from still runs in the supersteps of the others.
                if not any(comes_from(fed_back._transformation, other_head._head) for fed_back in feedback):
                    head.count("the iteration", other_head, FeedbackRole.ENDS)
            if result.termination_criteria is not None:
                head.count("the iteration", result.termination_criteria, FeedbackRole.TERMINATION)
        return list(result.output_streams)

    @staticmethod
    def iterate_unbounded_streams(
        init_variable_streams: Sequence[DataStream[Any]], data_streams: Sequence[DataStream[Any]], body: IterationBody
    ) -> list[DataStream[Any]]:
        """Iterate without supersteps: each record that is fed back goes round by itself, as in `DataStream.iterate`.

        The streams may be unbounded. With bounded ones the iteration ends when no record goes round. Listeners are not
        called, because no superstep ends. Returns the output streams of the body. Raises ValueError if the body feeds
        back another number of streams than there are variables, or returns termination criteria.
        """
        heads = [stream.iterate() for stream in init_variable_streams]
        result = body(heads, data_streams)
        _check_number(result, len(heads))
        if result.termination_criteria is not None:
            raise ValueError("an unbounded iteration has no termination criteria: it ends with its input, if at all")
        for head, stream in zip(heads, result.feedback_variable_streams, strict=True):
            head.close_with(stream)
        return list(result.output_streams)


def _derived(streams: Sequence[DataStream[Any]], heads: Sequence[SuperstepStream[Any]]) -> list[DataStream[Any]]:
    return [stream for stream in streams if any(comes_from(stream._transformation, head._head) for head in heads)]


def _check_number(result: IterationBodyResult, variables: int) -> None:
    feedback = len(result.feedback_variable_streams)
    if feedback != variables:
        raise ValueError(
            f"the body of the iteration feeds back {feedback} streams, but there are {variables} variable streams: "
            "return one for each, in their order"
        )


def _entered(
    streams: Sequence[DataStream[Any]] | ReplayableDataStreamList, head: SuperstepStream[Any]
) -> Iterator[DataStream[Any]]:
    if not isinstance(streams, ReplayableDataStreamList):
        yield from streams
        return
    for stream, is_replayed in streams.streams:
        yield head.replay(stream) if is_replayed else head.enter(stream)
