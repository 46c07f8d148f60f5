"""Iterations over several streams. Source: FLIP-176, Flink ML's `org.apache.flink.iteration.Iterations`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from penstock.api.functions.aggregator import Aggregator, ConvergenceCriterion
from penstock.datastream.data_stream import DataStream
from penstock.engine.runtime.network.edge import FeedbackRole
from penstock.iteration.superstep_stream import SuperstepStream, iterate


class IterationConfig(msgspec.Struct, frozen=True):
    """Settings of an iteration: its largest number of supersteps, its aggregators, and criteria by their names."""

    supersteps_max: int | None = None
    aggregators: Mapping[str, Aggregator[Any]] = {}
    criteria: Mapping[str, ConvergenceCriterion[Any]] = {}


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
        data_streams: Sequence[DataStream[Any]],
        config: IterationConfig,
        body: IterationBody,
    ) -> list[DataStream[Any]]:
        """Iterate until a superstep feeds nothing back, or as `config` and the body's termination say.

        All streams must be bounded. Superstep 0 ends when they have ended: the body has all records of the data streams
        by then, and keeps what it needs of them. Returns the output streams of the body. Raises ValueError if the body
        feeds back another number of streams than there are variables.
        """
        if not init_variable_streams:
            raise ValueError("an iteration needs at least one variable stream")
        heads: list[SuperstepStream[Any]] = [
            iterate(stream, config.supersteps_max, aggregators=config.aggregators, criteria=config.criteria)
            for stream in init_variable_streams
        ]
        result = body(heads, data_streams)
        feedback = result.feedback_variable_streams
        if len(feedback) != len(heads):
            raise ValueError(
                f"the body of the iteration feeds back {len(feedback)} streams, but there are {len(heads)} variable "
                "streams: return one for each, in their order"
            )
        for head, stream in zip(heads, feedback, strict=True):
            head.feed_back("the iteration", stream)
            for other in feedback:
                # All heads decide when the iteration ends, so each has to know of all feedback.
                if other is not stream:
                    head.count("the iteration", other, FeedbackRole.COUNT)
            if result.termination_criteria is not None:
                head.count("the iteration", result.termination_criteria, FeedbackRole.TERMINATION)
        return list(result.output_streams)
