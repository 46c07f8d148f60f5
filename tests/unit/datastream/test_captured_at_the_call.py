"""Functions and collections are what they are when they are given to the API."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
from tests.simulation.programs import environment, simulate

from penstock.common import WatermarkStrategy
from penstock.common.time import Time
from penstock.common.values.shallow_copy import shallow_copy
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import (
    AggregateFunction,
    CoMapFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
)
from penstock.datastream.window import (
    CountTrigger,
    GlobalWindows,
    PurgingTrigger,
    TumblingEventTimeWindows,
)


def results(env: StreamExecutionEnvironment) -> list[Any]:
    simulation = simulate(env, 1)
    simulation.run()
    return sorted(value for values in simulation.results.values() for value in values)


class Plus(MapFunction, ReduceFunction, CoMapFunction, AggregateFunction):
    """A function of every kind, with an attribute."""

    def __init__(self, step: int) -> None:
        self.step = step

    def map(self, value):
        return value + self.step

    def map1(self, value):
        # The second method sees what the first one has kept: both belong to one object.
        self.step += 1
        return value + self.step

    def map2(self, value):
        return value + self.step

    def reduce(self, value1, value2):
        return value1 + value2 + self.step

    def create_accumulator(self):
        return self.step

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def windowed(stream: Any) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, timestamp: value)
    stamped = stream.assign_timestamps_and_watermarks(strategy)
    return stamped.key_by(lambda value: 0).window(TumblingEventTimeWindows.of(Time.seconds(1)))


KINDS = {
    "map": (lambda stream, plus: stream.map(plus), [11, 12]),
    "keyed map": (lambda stream, plus: stream.key_by(lambda value: 0).map(plus), [11, 12]),
    "lambda": (lambda stream, plus: stream.map(lambda value: value + plus.step), [11, 12]),
    "default": (lambda stream, plus: stream.map(lambda value, plus=plus: value + plus.step), [11, 12]),
    "bound method": (lambda stream, plus: stream.map(plus.map), [11, 12]),
    "reduce": (lambda stream, plus: stream.key_by(lambda value: 0).reduce(plus), [1, 13]),
    "aggregate": (lambda stream, plus: windowed(stream).aggregate(plus), [13]),
    "co-map": (lambda stream, plus: stream.filter(lambda v: False).connect(stream).map(plus), [11, 12]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_that_changes_after_the_call_runs_as_it_was(kind: str) -> None:
    """One object that is set again for the next operator would give all operators its last values."""
    build, expected = KINDS[kind]
    env, plus = environment(1), Plus(10)
    build(env.from_collection([1, 2]), plus).print()
    plus.step = 1000
    assert results(env) == expected


def test_lambdas_in_a_loop_have_the_value_of_their_round() -> None:
    """A program with a branch for each topic would put all records into the last one."""
    env = environment(1)
    numbers = env.from_collection([1, 2])
    for factor in (10, 100):
        numbers.map(lambda value: value * factor).print()  # noqa: B023
    assert results(env) == [10, 20, 100, 200]


class KeyOf(KeySelector):
    """The field of its attribute."""

    def __init__(self, field: int) -> None:
        self.field = field

    def get_key(self, value):
        return value[self.field]


@pytest.mark.parametrize("kind", ["lambda", "object"])
def test_key_selectors_in_a_loop_have_the_value_of_their_round(kind: str) -> None:
    """Counts by each of several fields would all be counts by the last one, or split over subtasks."""
    env, key_of = environment(2), KeyOf(0)
    records = env.from_collection([("a", "x", 1), ("a", "y", 1), ("b", "x", 1), ("b", "y", 1)] * 5)
    for field in (0, 1):
        key_of.field = field
        keyed = records.key_by(key_of if kind == "object" else lambda record: record[field])  # noqa: B023
        summed = keyed.reduce(lambda one, other: (one[0], one[1], one[2] + other[2]))
        summed.map(lambda record: (field, record[field], record[2])).print()  # noqa: B023
    simulation = simulate(env, 1)
    simulation.run()
    found = {value for values in simulation.results.values() for value in values}
    assert found == {(f, k, n) for f, keys in ((0, "ab"), (1, "xy")) for k in keys for n in range(1, 11)}


def test_partitioners_in_a_loop_have_the_value_of_their_round() -> None:
    """Records meant for one subtask each would all go to the last one."""
    env = environment(2)
    numbers = env.from_collection([0, 1, 2, 3])
    for step in (0, 1):
        sent = numbers.partition_custom(lambda key, count: (key + step) % count, lambda value: value * step)  # noqa: B023
        sent.process(Where()).map(lambda sent: (step, *sent)).print()  # noqa: B023
    assert results(env) == [(0, 0, 0), (0, 1, 0), (0, 2, 0), (0, 3, 0), (1, 0, 1), (1, 1, 0), (1, 2, 1), (1, 3, 0)]


class Where(ProcessFunction):
    """Each value with the subtask that it arrives at."""

    def open(self, runtime_context):
        self.index = runtime_context.get_index_of_this_subtask()

    def process_element(self, value, ctx):
        yield value, self.index


def test_a_key_selector_may_call_a_helper_that_is_defined_after_it() -> None:
    """A script that defines its helpers below the program would fail, or count by two different keys."""
    env = environment(1)
    env.from_collection([1, 2, 3]).key_by(lambda value: helper(value)).reduce(lambda one, other: one + other).print()

    def helper(value: int) -> int:
        return value % 2

    assert results(env) == [1, 2, 4]


def test_a_helper_that_is_defined_after_the_call_is_found() -> None:
    """A script that defines its helpers below the program would fail."""
    env = environment(1)
    env.from_collection([1, 2]).map(lambda value: helper(value)).print()

    def helper(value: int) -> int:
        return value + 1

    assert results(env) == [2, 3]


def test_a_trigger_that_was_replaced_is_not_taken_for_a_later_object() -> None:
    """An operator that gets the memory of the former trigger would arrive in the worker as that trigger."""
    stream = StreamExecutionEnvironment().from_collection([("a", 1)]).key_by(lambda pair: pair[0])
    windows, former = stream.window(GlobalWindows.create()), CountTrigger.of(3)
    known = weakref.ref(former)
    windows.trigger(former).trigger(PurgingTrigger.of(CountTrigger.of(4)))
    del former
    gc.collect()
    # It is found by its id: as long as it lives no other object has that.
    assert known() is not None
    operator: Any = windows.reduce(lambda one, other: other)._transformation.operator  # type: ignore[attr-defined]
    sent = pickle.loads(operator.captured.data)
    assert type(sent) is type(operator) and type(sent.trigger) is PurgingTrigger


def test_two_methods_of_a_function_belong_to_one_object() -> None:
    """A function of two streams would have two memories."""
    env = environment(1)
    env.from_collection([1]).connect(env.from_collection([], None)).map(Plus(0)).print()
    assert results(env) == [2]


def test_a_collection_whose_records_change_after_the_call_arrives_as_it_was() -> None:
    """A dict that a program fills again for its next source would arrive twice as the last one."""
    env, template = environment(1), {"n": [1]}
    env.from_collection([template]).map(lambda record: record["n"][0]).print()
    template["n"][0] = 2
    assert results(env) == [1]


def test_a_container_that_two_attributes_share_is_one_in_the_driver() -> None:
    """An enumerator that adds to a list would not find it under the other name that its source has for it."""
    source = NumberSequenceSource(1, 3)
    vars(source).update(pending=["a"], all={"pending": None})
    vars(source)["all"]["pending"] = vars(source)["pending"]
    copied = vars(shallow_copy(source, copy_containers=True))
    assert copied["all"]["pending"] is copied["pending"] is not vars(source)["pending"]


class WithClient(NumberSequenceSource):
    """A source whose enumerator, in the driver, needs what can't be pickled. Its folder goes with it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(1, 3)
        self.client: Any = threading.Lock()
        self.folder = folder
        weakref.finalize(self, folder.rmdir)

    def create_enumerator(self, context: Any) -> Any:
        with self.client:
            assert self.folder.is_dir()
            return super().create_enumerator(context)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"client": None}


def test_the_driver_has_of_a_source_what_is_in_no_pickle(tmp_path: Path) -> None:
    """An enumerator would lack the client that its source has for it, such as the session of a streaming DataFrame."""
    env = environment(1)
    source = WithClient(tmp_path / "folder")
    source.folder.mkdir()
    read = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    source.client = None
    del source
    gc.collect()
    read.print()
    assert results(env) == [1, 2, 3]


class WithOptions(NumberSequenceSource):
    """A source whose enumerator and reader look at options of the program's."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(1, 9)
        self.options = options

    def create_enumerator(self, context: Any) -> Any:
        self._end = self.options["ends"][0]
        return super().create_enumerator(context)


def test_options_of_a_source_that_change_after_the_call_are_as_they_were_in_the_driver_too() -> None:
    """A program that fills one dict for each of its sources would have all of them give out the splits of the last."""
    env, options = environment(1), {"ends": [2]}
    env.from_source(WithOptions(options), WatermarkStrategy.no_watermarks(), "numbers").print()
    options["ends"][0] = 5
    options["ends"] = [7]
    assert results(env) == [1, 2]
