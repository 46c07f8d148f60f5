"""What was emitted stays as it was, whatever functions do with their references to it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.simulation.programs import environment, simulate

from penstock.api.output_tag import OutputTag
from penstock.common import Types
from penstock.common.time import Time
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
)
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.hosts.simulator import Circumstances

SIDE = OutputTag("side")
CALM = Circumstances(buffer_records=100, chunk_records=100, jump_rate=0.0)
THREE = [["a"], ["a", "b"], ["a", "b", "c"]]


def results(env: StreamExecutionEnvironment, circumstances: Circumstances = CALM) -> list[Any]:
    """What the only sink of a program got. Buffers are large: records wait in them while functions go on."""
    simulation = simulate(env, 1, circumstances)
    simulation.run()
    return [value for values in simulation.results.values() for value in values]


class Growing(MapFunction):
    """Appends to one list, and returns it each time."""

    def open(self, runtime_context):
        self.items: list[str] = []

    def map(self, value):
        self.items.append(value)
        return self.items


class GrowingTuple(Growing):
    def map(self, value):
        return ("items", super().map(value))


class GrowingFlat(FlatMapFunction):
    """Changes its list between two yields."""

    def flat_map(self, value):
        items = []
        for letter in value:
            items.append(letter)
            yield items


class GrowingLists(FlatMapFunction):
    """Returns a list of its results, all of them one object."""

    def flat_map(self, value):
        items = list(value)
        return [items, items]


class GrowingMany(ProcessFunction):
    """Returns a list of many pairs, of which the last one is changed by the next call, or a list of flat pairs."""

    def open(self, runtime_context):
        self.items: list[str] = []

    def process_element(self, value, ctx):
        self.items.append(value)
        return [*((value, number) for number in range(5)), ("items", self.items)]


class GrowingState(KeyedProcessFunction):
    """Emits what is in its state, as one does."""

    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("items", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        items = self.state.value() or []
        items.append(value)
        self.state.update(items)
        yield items


class GrowingSide(ProcessFunction):
    def open(self, runtime_context):
        self.items: list[str] = []

    def process_element(self, value, ctx):
        self.items.append(value)
        yield SIDE, self.items


class InPlace(ReduceFunction):
    """Changes the reduced value, and returns it."""

    def reduce(self, value1, value2):
        value1.extend(value2)
        return value1


class ChangingType(Growing):
    """Text, then in the middle of a chunk a list that changes."""

    def map(self, value):
        return super().map(value) if value != "a" else value


class Remembering(FilterFunction):
    """Changes earlier values when it is asked about later ones."""

    def open(self, runtime_context):
        self.seen: list[list[str]] = []

    def filter(self, value):
        for earlier in self.seen:
            earlier.append("changed")
        self.seen.append(value)
        return True


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda s: s.map(Growing()), THREE),
        (lambda s: s.map(GrowingTuple()), [("items", items) for items in THREE]),
        (lambda s: s.map(ChangingType()), ["a", ["b"], ["b", "c"]]),
        (lambda s: s.map(lambda v: "abc"[: "abc".index(v) + 1]).flat_map(GrowingFlat()),
         [["a"], ["a"], ["a", "b"], *THREE]),
        (lambda s: s.map(lambda v: [v]).filter(Remembering()), [["a"], ["b"], ["c"]]),
        (lambda s: s.key_by(lambda v: 0).process(GrowingState()), THREE),
        (lambda s: s.map(lambda v: [v]).key_by(lambda v: 0).reduce(InPlace()), THREE),
        (lambda s: s.process(GrowingSide()).get_side_output(SIDE), THREE),
    ],
)  # fmt: skip
def test_values_stay_as_they_were_emitted(build: Any, expected: list[Any], exchange: bool) -> None:
    """A stream would hold its last state several times: records wait for their buffer by reference."""
    env = environment(1)
    stream = build(env.from_collection(["a", "b", "c"]))
    (stream.rebalance() if exchange else stream).map(Unchanged()).print()
    assert results(env) == expected


class Unchanged(MapFunction):
    def map(self, value):
        return value


class Clearing(MapFunction):
    """Changes what it is given."""

    def map(self, value):
        value.clear()
        return value


@pytest.mark.parametrize("chunk_records", [4, 6, 9, 100])
def test_lists_of_many_results_stay_as_they_were_emitted(chunk_records: int) -> None:
    """Results of a list are tested together whether they may change, and may be more than a chunk."""
    env = environment(1)
    env.from_collection(["a", "b"]).process(GrowingMany()).print()
    found = results(env, dataclasses.replace(CALM, chunk_records=chunk_records))
    flat = [[(value, number) for number in range(5)] for value in "ab"]
    assert found == [*flat[0], ("items", ["a"]), *flat[1], ("items", ["a", "b"])]


def test_a_branch_that_changes_its_values_changes_no_other() -> None:
    """What one reader of a stream does would be seen by the others."""
    env = environment(1)
    stream = env.from_collection(["a", "b"]).map(lambda v: [v])
    stream.map(Clearing()).rebalance().filter(lambda v: False).print()
    stream.map(Unchanged()).print()
    assert results(env) == [["a"], ["b"]]


def test_an_edge_beside_a_branch_that_changes_its_values() -> None:
    """Records that wait for their buffer would be changed before they are sent."""
    env = environment(1)
    stream = env.from_collection(["a", "b"]).map(lambda v: [v])
    stream.map(Clearing()).filter(lambda v: False).print()
    stream.rebalance().map(Unchanged()).print()
    assert results(env) == [["a"], ["b"]]


def test_a_reader_that_changes_its_values_does_not_change_state() -> None:
    """The state of an operator would depend on what follows it in the chain."""
    env = environment(1)
    env.from_collection(["a", "b", "c"]).key_by(lambda v: 0).process(GrowingState()).map(Clearing()).print()
    assert results(env) == [[], [], []]
    env = environment(1)
    counted = env.from_collection(["a", "b", "c"]).key_by(lambda v: 0).process(GrowingState())
    counted.map(lambda v: (len(v), v.clear())[0]).print()
    assert results(env) == [1, 2, 3]


REUSING = dataclasses.replace(CALM, reuses_objects=True)


@pytest.mark.parametrize(("circumstances", "sizes"), [(CALM, [1, 2, 3]), (REUSING, [3, 3, 3])])
def test_object_reuse_hands_values_on_within_a_chain(circumstances: Circumstances, sizes: list[int]) -> None:
    """Who asks for no copies would pay for them all the same."""
    env = environment(1)
    env.from_collection(["a", "b", "c"]).map(Growing()).map(lambda items: len(items)).print()
    assert results(env, circumstances) == sizes


@pytest.mark.parametrize("exchange", [True, False])
def test_object_reuse_copies_what_leaves_the_chain_or_is_kept(exchange: bool) -> None:
    """It would change what is sent, and what sinks and windows hold: Flink serialises there in any case."""
    env = environment(1)
    stream = env.from_collection(["a", "b", "c"]).map(Growing())
    (stream.rebalance() if exchange else stream).print()
    assert results(env, REUSING) == THREE
    env = environment(1)
    stamped = env.from_collection(["a", "b", "c"]).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, timestamp: ord(value))
    )
    grown = stamped.map(Growing())
    everything = (grown.rebalance() if exchange else grown).window_all(TumblingEventTimeWindows.of(Time.seconds(1)))
    everything.process(AllOfAll()).print()
    assert results(env, REUSING) == [THREE]


class AllOfAll(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield list(elements)


class All(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield list(elements)


def test_the_contents_of_a_window() -> None:
    """A window would hold one value as often as it was emitted."""
    env = environment(1)
    stamped = env.from_collection(["a", "b", "c"]).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, timestamp: ord(value))
    )
    windows = stamped.map(Growing()).key_by(lambda v: 0).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    windows.process(All()).print()
    assert results(env) == [THREE]
