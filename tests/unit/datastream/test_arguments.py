"""Functions and fields that can't be right are refused by the call that names them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from penstock.common import Types, WatermarkStrategy
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import AsyncDataStream, DataStream, StreamExecutionEnvironment
from penstock.datastream.functions import (
    AggregateFunction,
    AsyncFunction,
    CoMapFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from penstock.datastream.window import CountTumblingWindowAssigner

Program = Callable[[DataStream[Any]], Any]


def numbers() -> DataStream[Any]:
    env = StreamExecutionEnvironment()
    return env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), "numbers")


def one(value: Any) -> Any:
    return value


def two(value: Any, other: Any) -> Any:
    return value


class Collecting(ProcessFunction):  # type: ignore[type-arg]
    def process_element(self, value: Any, ctx: Any, out: Any) -> None:  # type: ignore[override]
        out.collect(value)


class Timed(KeyedProcessFunction):  # type: ignore[type-arg]
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield value

    def on_timer(self, timestamp: int) -> None:  # type: ignore[override]
        """The context is missing."""


class Keyed(KeyedProcessFunction):  # type: ignore[type-arg]
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield value


class Both(CoMapFunction):  # type: ignore[type-arg]
    def map1(self, value: Any) -> Any:
        return value

    def map2(self) -> Any:  # type: ignore[override]
        return 2


class Count(AggregateFunction):  # type: ignore[type-arg]
    def create_accumulator(self) -> int:
        return 0

    def add(self, accumulator: int) -> int:  # type: ignore[override]
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Slow(AsyncFunction):  # type: ignore[type-arg]
    async def async_invoke(self) -> list[Any]:  # type: ignore[override]
        return []


REFUSED: dict[str, tuple[Program, str]] = {
    "map": (lambda s: s.map(two), "map: two is called with 1 argument (value), and takes (value: 'Any', other: 'Any')"),
    "flat_map": (lambda s: s.flat_map(two), "flat_map: two is called with 1 argument (value)"),
    "filter": (lambda s: s.filter(lambda: True), "<lambda> is called with 1 argument (value), and takes ()"),
    "lambda": (lambda s: s.filter(lambda: True), "filter: "),
    "keyed map": (lambda s: s.key_by(one).map(two), "map: two is called with 1 argument"),
    "key_by": (lambda s: s.key_by(two), "key_by: the key selector is called with 1 argument (value)"),
    "partitioner": (
        lambda s: s.partition_custom(one, one),
        "partition_custom: the partitioner is called with 2 arguments (key, num_partitions), and takes (value: 'Any')",
    ),
    "reduce": (lambda s: s.key_by(one).reduce(one), "reduce: one is called with 2 arguments (value1, value2)"),
    "window reduce": (
        lambda s: s.key_by(one).window(CountTumblingWindowAssigner.of(2)).reduce(one),
        "reduce: one is called with 2 arguments (value1, value2)",
    ),
    "window": (
        lambda s: s.key_by(one).window(CountTumblingWindowAssigner.of(2)).apply(two),
        "apply: two is called with 3 arguments (key, window, inputs)",
    ),
    "aggregate": (
        lambda s: s.key_by(one).window(CountTumblingWindowAssigner.of(2)).aggregate(Count()),
        "aggregate: Count.add is called with 2 arguments (value, accumulator), and takes (accumulator: 'int')",
    ),
    "process": (
        lambda s: s.process(Collecting()),
        "process: Collecting.process_element is called with 2 arguments (value, ctx), and takes "
        "(value: 'Any', ctx: 'Any', out: 'Any') -> 'None'. Yield results: there is no Collector",
    ),
    "timer": (
        lambda s: s.key_by(one).process(Timed()),
        "process: Timed.on_timer is called with 2 arguments (timestamp, ctx), and takes (timestamp: 'int')",
    ),
    "two inputs": (
        lambda s: s.connect(s).map(Both()),
        "map: Both.map2 is called with 1 argument (value), and takes ()",
    ),
    "async": (
        lambda s: AsyncDataStream.unordered_wait(s, Slow(), 1000),
        "unordered_wait: Slow.async_invoke is called with 1 argument (value)",
    ),
    "no key": (
        lambda s: s.process(Keyed()),  # type: ignore[arg-type]
        "Keyed is a KeyedProcessFunction, and this stream has no key: call key_by before process",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_function_that_can_not_be_called_is_refused_where_it_is_written(case: str) -> None:
    """A worker would tell it: with the second record of a key, when the first timer fires, when state is asked for."""
    program, message = REFUSED[case]
    with pytest.raises(TypeError, match=re.escape(message)):
        program(numbers())


PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
NAMED = Types.ROW_NAMED(["airport", "delay"], [Types.STRING(), Types.LONG()])


@pytest.mark.parametrize(
    ("declared", "field"), [(PAIR, 2), (PAIR, "delay"), (NAMED, 2), (NAMED, "dealy"), (Types.LONG(), 1)]
)
@pytest.mark.parametrize("aggregate", ["sum", "min", "max", "min_by", "max_by"])
def test_a_field_that_the_declared_type_lacks_is_refused(aggregate: str, declared: Any, field: int | str) -> None:
    """The job would start, and fail in a worker."""
    keyed = numbers().map(one, declared).key_by(one)
    with pytest.raises(ValueError, match=re.escape(f"there is no field {field!r} in {declared}")):
        getattr(keyed, aggregate)(field)


def returns_a_pair(value: int) -> tuple[str, int]:
    return str(value), value


@pytest.mark.parametrize(
    ("stream", "field"),
    [
        (numbers().map(one, PAIR), 1),
        (numbers().map(one, NAMED), "delay"),
        (numbers().map(one, NAMED), 1),
        (numbers().map(one, Types.LONG()), 0),
        (numbers().map(one), "anything"),
        # What a hint says need not be so.
        (numbers().map(returns_a_pair), 7),
    ],
)
def test_a_field_that_may_be_there_is_not_refused(stream: DataStream[Any], field: int | str) -> None:
    """A program that runs would be refused."""
    stream.key_by(one).sum(field)
