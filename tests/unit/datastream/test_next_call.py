"""Calls that can't be are told by the call, with what to call instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import AsyncDataStream, AsyncFunction, DataStream, StreamExecutionEnvironment
from penstock.datastream.functions import AsyncRetryStrategy
from penstock.datastream.state import MapStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.iteration import iterate, iterate_delta

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Asked(AsyncFunction[Any, Any]):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]


def first(value: Any) -> Any:
    return value[0]


@pytest.fixture
def stream() -> DataStream[Any]:
    """Of pairs, without a key."""
    return StreamExecutionEnvironment.get_execution_environment().from_collection([("a", 1)])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda stream: stream.interval_join(stream),
            "a stream without a key has no 'interval_join': call key_by first",
        ),
        (lambda stream: stream.sum(1), "a stream without a key has no 'sum': call key_by first"),
        (lambda stream: stream.broadcast(RULES).map(first), r"continue with other_stream.connect\(this\).process\("),
        (lambda stream: stream.connect(stream.broadcast(RULES)).map(first), r"no 'map': continue with process\("),
        (lambda stream: stream.connect(stream).reduce(max), "no 'reduce': continue with map, flat_map or process"),
        (lambda stream: stream.join(stream).window(None), r"no 'window': continue with where\(key_selector\)"),
        (lambda stream: stream.join(stream).where(first).window(None), r"continue with equal_to\(key_selector\)"),
        (lambda stream: stream.key_by(first).interval_join(stream.key_by(first)).process(max), r"with between\("),
        (
            lambda stream: stream.key_by(first).window(TumblingEventTimeWindows.of(5)).print(),
            "no 'print': continue with reduce, aggregate, apply or process",
        ),
        (lambda stream: iterate(stream, 3).map(first).close_with(stream), r"on what iterate\(\) has returned"),
        (lambda stream: iterate_delta(stream, stream, key=first).map(first), "continue with its workset, its solution"),
        (
            lambda stream: iterate_delta(stream, stream, key=first).solution_set.join(stream),
            r"continue with co_group\(messages",
        ),
        (lambda stream: stream.no_such(), "'DataStream' object has no attribute 'no_such'"),
        (lambda stream: stream.key_by(first).no_such(), "'KeyedStream' object has no attribute 'no_such'"),
    ],
)
def test_a_method_that_comes_too_early_is_told(
    stream: DataStream[Any], call: Callable[[Any], Any], message: str
) -> None:
    """The user would read "no attribute", and look for a misspelling where a call is missing."""
    with pytest.raises(AttributeError, match=message):
        call(stream)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda stream: AsyncDataStream.ordered_wait(stream, Asked(), 5, "10"),
            ValueError,
            "an int of 1 or more, got '10'",
        ),
        (
            lambda stream: AsyncDataStream.ordered_wait(stream, Asked(), 5, 2.5),
            ValueError,
            "an int of 1 or more, got 2.5",
        ),
        (lambda stream: AsyncDataStream.ordered_wait(stream, Asked, 5), TypeError, r"create one with Asked\(\)"),
        (lambda stream: AsyncDataStream.ordered_wait([1], Asked(), 5), TypeError, r"expected a DataStream, got \[1\]"),
        (lambda stream: AsyncRetryStrategy.fixed_delay("3", 1), TypeError, "max_attempts must be a number, got '3'"),
        (lambda stream: stream.name(5), TypeError, "the name of an operator must be a str, got 5"),
        (lambda stream: stream.uid(5), TypeError, "a uid must be a str, got 5"),
        (lambda stream: stream.set_description("\ud800"), ValueError, "a description must be Unicode text"),
        (lambda stream: stream.project("a"), TypeError, "the columns of these records are not known"),
        (
            lambda stream: stream.execute_and_collect(limit="3"),
            ValueError,
            "limit must be an int of 0 or more, got '3'",
        ),
    ],
)
def test_an_argument_of_another_type_is_told(
    stream: DataStream[Any], call: Callable[[Any], Any], error: type[Exception], message: str
) -> None:
    """A text in the place of a number would be told in words of Python's operators, or by a worker."""
    with pytest.raises(error, match=message):
        call(stream)
