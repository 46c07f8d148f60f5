"""Iterations over several streams. Source: FLIP-176, Flink ML's `org.apache.flink.iteration.Iterations`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from penstock.api.functions.aggregator import Aggregator, ConvergenceCriterion
from penstock.datastream.arguments import check_parameters
from penstock.datastream.data_stream import DataStream
from penstock.engine.plan.upstream import comes_from
from penstock.iteration.arguments import check_from_inside, check_stream, check_streams, is_unbounded
from penstock.iteration.replayable_data_streams import ReplayableDataStreamList
from penstock.iteration.superstep_stream import SuperstepStream, iterate


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
        _check_arguments(init_variable_streams, data_streams)
        check_parameters(body, IterationBody.__call__, "the body")
        if not isinstance(config, IterationConfig):
            raise TypeError(
                f"config must be an IterationConfig, e.g. IterationConfig(supersteps_max=10), got {config!r}"
            )
        for stream in [*init_variable_streams, *_streams(data_streams)]:
            if is_unbounded(stream):
                raise ValueError(
                    f"'{stream.get_name()}' is unbounded: use Iterations.iterate_unbounded_streams, or a bounded source"
                )
        return _iterated(init_variable_streams, data_streams, config, body)

    @staticmethod
    def iterate_unbounded_streams(
        init_variable_streams: Sequence[DataStream[Any]], data_streams: Sequence[DataStream[Any]], body: IterationBody
    ) -> list[DataStream[Any]]:
        """Iterate over streams that may be unbounded: what arrives joins the superstep that begins next.

        Superstep 0 has the records of bounded streams, and ends when these have ended. Each later one has what was fed
        back, and what has arrived of unbounded streams in the meantime; without either, the next superstep waits. The
        iteration ends when all streams have ended and nothing is fed back. Unbounded data streams have to be used as
        the body gets them. Returns the output streams of the body. Raises ValueError if the body feeds back another
        number of streams than there are variables, or returns termination criteria.

        In Flink ML records of unbounded iterations go round by themselves, as in `DataStream.iterate`.
        """

        def unended(variables: Sequence[DataStream[Any]], data: Sequence[DataStream[Any]]) -> IterationBodyResult:
            result = _checked(body(variables, data))
            if result.termination_criteria is not None:
                raise ValueError(
                    "an unbounded iteration has no termination criteria: it ends with its input, if at all"
                )
            return result

        _check_arguments(init_variable_streams, data_streams)
        check_parameters(body, IterationBody.__call__, "the body")
        return _iterated(init_variable_streams, data_streams, IterationConfig(), unended)


def _iterated(
    variables: Sequence[DataStream[Any]],
    data_streams: Sequence[DataStream[Any]] | ReplayableDataStreamList,
    config: IterationConfig,
    body: IterationBody,
) -> list[DataStream[Any]]:
    if not variables:
        raise ValueError("an iteration needs at least one variable stream")
    rules: dict[str, Any] = {"aggregators": config.aggregators, "criteria": config.criteria, "slack": config.slack}
    heads: list[SuperstepStream[Any]] = [iterate(stream, config.supersteps_max, **rules) for stream in variables]
    for head in heads:
        head._decide_with(heads[0])
    result = _checked(body(heads, [*_entered(data_streams, heads[0])]))
    feedback, termination = result.feedback_variable_streams, result.termination_criteria
    _check_number(result, len(heads))
    from_inside = [*heads, *heads[0]._entering]
    check_from_inside("the body", feedback if termination is None else [*feedback, termination], from_inside)
    fed_back = [head._fed_back(stream) for head, stream in zip(heads, feedback, strict=True)]
    heads[0]._close(fed_back, termination, _derived(result.output_streams, from_inside))
    return list(result.output_streams)


def _check_arguments(variables: Any, data_streams: Any) -> None:
    """Raise TypeError for arguments that are not lists of streams."""
    check_streams("the variable streams", variables)
    check_streams(
        "the data streams",
        [*_streams(data_streams)] if isinstance(data_streams, ReplayableDataStreamList) else data_streams,
    )


def _checked(result: Any) -> IterationBodyResult:
    """Return the result of a body. Raises TypeError if it is of another kind."""
    if not isinstance(result, IterationBodyResult):
        raise TypeError(
            f"the body of an iteration returns IterationBodyResult(feedback streams, output streams), got {result!r}"
        )
    check_streams("feedback_variable_streams", result.feedback_variable_streams)
    check_streams("output_streams", result.output_streams)
    if result.termination_criteria is not None:
        check_stream("termination_criteria", result.termination_criteria)
    return result


def _streams(streams: Sequence[DataStream[Any]] | ReplayableDataStreamList) -> Iterator[DataStream[Any]]:
    yield from (stream for stream, _ in streams.streams) if isinstance(streams, ReplayableDataStreamList) else streams


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
        # A bounded stream is used as it is: it only holds back superstep 0.
        yield from (head.enter(stream) if is_unbounded(stream) else stream for stream in streams)
        return
    for stream, is_replayed in streams.streams:
        yield head.replay(stream) if is_replayed else head.enter(stream)
