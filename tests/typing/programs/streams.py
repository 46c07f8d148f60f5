"""Streams without keys: what each verb makes of the type of the values."""

from collections.abc import Iterator
from typing import Any, assert_type

from penstock.datastream import (
    CloseableIterator,
    DataStream,
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)


class Length(MapFunction[str, int]):
    def map(self, value: str) -> int:
        return len(value)


class Letters(FlatMapFunction[str, str]):
    def flat_map(self, value: str) -> Iterator[str]:
        yield from value


class Short(FilterFunction[str]):
    def filter(self, value: str) -> bool:
        return len(value) < 3


class Halves(ProcessFunction[int, float]):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[float]:
        assert_type(ctx.timestamp(), int | None)
        yield value / 2


class WrongResult(MapFunction[str, int]):
    def map(self, value: str) -> str:  # E: Return type "str" of "map" incompatible with return type "int"
        return value


env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection([1, 2, 3])
texts = env.from_collection(["a", "b"])
assert_type(numbers, DataStream[int])

# Callables.
assert_type(numbers.map(str), DataStream[str])
assert_type(numbers.map(lambda value: value / 2), DataStream[float])
assert_type(numbers.map(lambda value: (value, str(value))), DataStream[tuple[int, str]])
assert_type(texts.flat_map(str.split), DataStream[str])
assert_type(numbers.flat_map(range), DataStream[int])
assert_type(numbers.filter(lambda value: value % 2), DataStream[int])
texts.map(lambda text: text + 1)  # E: Unsupported operand types for + ("str" and "int")
numbers.map(str.upper)  # E: "map" of "DataStream"
numbers.map(3)  # E: "map" of "DataStream"
numbers.flat_map(lambda value: value)  # E: "flat_map" of "DataStream"  # E: Incompatible return
numbers.filter(str.isdigit)  # E: Argument 1 to "filter" of "DataStream" has incompatible type

# Functions of classes.
assert_type(texts.map(Length()), DataStream[int])
assert_type(texts.flat_map(Letters()), DataStream[str])
assert_type(texts.filter(Short()), DataStream[str])
assert_type(numbers.process(Halves()), DataStream[float])
numbers.map(Length())  # E: "map" of "DataStream"
numbers.filter(Short())  # E: Argument 1 to "filter" of "DataStream" has incompatible type "Short"
texts.process(Halves())  # E: Argument 1 to "process" of "DataStream" has incompatible type "Halves"

# Settings and partitionings keep the type.
assert_type(numbers.name("numbers").uid("numbers").set_parallelism(2).disable_chaining(), DataStream[int])
assert_type(numbers.rebalance().rescale().shuffle().broadcast().global_().forward(), DataStream[int])
assert_type(numbers.union(numbers, numbers), DataStream[int])
numbers.union(texts)  # E: Argument 1 to "union" of "DataStream" has incompatible type "DataStream[str]"
numbers.set_parallelism("2")  # E: Argument 1 to "set_parallelism"
numbers.nome("numbers")  # E: "DataStream[int]" has no attribute "nome"

# Side outputs have the type of their tag.
late: OutputTag[str] = OutputTag("late")
assert_type(numbers.process(Halves()).get_side_output(late), DataStream[str])
assert_type(env.from_collection([{"a": 1}]).project(0), DataStream[Any])

# What comes back to the driver.
assert_type(numbers.execute_and_collect("job"), CloseableIterator[int])
assert_type(numbers.execute_and_collect(limit=3), list[int])
with texts.execute_and_collect() as values:
    assert_type(next(iter(values)), str)
