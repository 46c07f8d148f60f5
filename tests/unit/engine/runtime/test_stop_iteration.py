"""A StopIteration or a sys.exit of a user's function is that function's error, in every loop that calls it."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.simulation.programs import environment, simulate

from penstock.common.errors import UserFunctionError
from penstock.common.functions.user_calls import results_of
from penstock.common.time import Time
from penstock.common.watermark_strategy import WatermarkGenerator, WatermarkStrategy
from penstock.datastream import DataStream
from penstock.datastream.functions import AggregateFunction, CoMapFunction, KeyedProcessFunction, ProcessFunction
from penstock.datastream.window import (
    DynamicEventTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.hosts.simulator import Circumstances

VALUES = ["a", "b", "x", "c", "d", "e"]
SLIDING = SlidingEventTimeWindows.of(Time.milliseconds(4), Time.milliseconds(2))
CALM = Circumstances(chunk_records=100, jump_rate=0.0)


def stops(value: Any, *_: Any) -> Any:
    """As one writes it: it finds nothing for "x", and leaves at "q"."""
    if value == "q":
        sys.exit("no more of these")
    return next(iter([value] if value != "x" else []))


def stamped(assigner: Any) -> WatermarkStrategy:
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)


class Plain(ProcessFunction):
    def process_element(self, value, ctx):
        return [stops(value)]


class Keyed(KeyedProcessFunction):
    def process_element(self, value, ctx):
        return [stops(value)]


class Timer(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ord(value))

    def on_timer(self, timestamp, ctx):
        return [stops(chr(timestamp))]


class Last(AggregateFunction):
    def create_accumulator(self):
        return ""

    def add(self, value, accumulator):
        return value

    def get_result(self, accumulator):
        return stops(accumulator)

    def merge(self, acc_a, acc_b):
        return max(acc_a, acc_b)


def in_windows(stream: DataStream[str], assigner: Any) -> Any:
    by_time = stream.assign_timestamps_and_watermarks(stamped(lambda value, timestamp: ord(value)))
    return by_time.key_by(lambda value: value).window(assigner)


class Punctuated(WatermarkGenerator):
    def on_event(self, value, timestamp, output):
        stops(value)

    def on_periodic_emit(self, output):
        """Nothing is due."""


class Chunked(Punctuated):
    punctuated = False


class CoPlain(CoMapFunction):
    def map1(self, value):
        return stops(value)

    def map2(self, value):
        return value


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return len(stops(element))


PROGRAMS = [
    lambda s: s.map(stops),
    lambda s: s.filter(stops),
    lambda s: s.flat_map(lambda v: [stops(v)]),
    lambda s: s.process(Plain()),
    lambda s: s.key_by(stops).map(lambda v: v),
    lambda s: s.key_by(lambda v: v).map(stops),
    lambda s: s.key_by(lambda v: v).filter(stops),
    lambda s: s.key_by(lambda v: v).flat_map(lambda v: [stops(v)]),
    lambda s: s.key_by(lambda v: v).process(Keyed()),
    lambda s: s.assign_timestamps_and_watermarks(stamped(lambda v, t: ord(v))).key_by(lambda v: 0).process(Timer()),
    lambda s: s.key_by(lambda v: 0).reduce(lambda a, b: stops(b)),
    lambda s: s.assign_timestamps_and_watermarks(stamped(lambda v, t: ord(stops(v)))),
    lambda s: s.partition_custom(lambda key, count: len(stops(key)) - 1, lambda v: v).map(lambda v: v),
    lambda s: s.partition_custom(lambda key, count: 0, stops).map(lambda v: v),
    lambda s: in_windows(s, TumblingEventTimeWindows.of(Time.milliseconds(1))).aggregate(Last()),
    lambda s: in_windows(s, SLIDING).aggregate(Last()),
    lambda s: in_windows(s, SLIDING).apply(lambda key, window, values: [stops(key)]),
    lambda s: in_windows(s, DynamicEventTimeSessionWindows(Gap())).apply(lambda key, window, values: values),
    lambda s: s.assign_timestamps_and_watermarks(WatermarkStrategy.for_generator(Punctuated)),
    lambda s: s.assign_timestamps_and_watermarks(WatermarkStrategy.for_generator(Chunked)),
    lambda s: s.connect(s).map(CoPlain()),
]  # fmt: skip


@pytest.mark.parametrize("build", [*PROGRAMS, lambda s: s.map(lambda v: next(iter([v] if v != "x" else [])))])
def test_a_bare_next_that_finds_nothing_fails_the_job(build: Any) -> None:
    """The loop over the chunk would end with it: half of the records would be missing, and the job would end well."""
    env = environment(1)
    build(env.from_collection(VALUES)).print()
    simulation = simulate(env, 1, CALM)
    simulation.run()
    error = simulation.driver.master.error
    assert error is not None and "StopIteration" in str(error), simulation.results


@pytest.mark.parametrize("build", PROGRAMS)
def test_a_function_that_leaves_fails_the_job(build: Any) -> None:
    """A worker would end without a word, and the job restart without end: nobody would look for a sys.exit."""
    env = environment(1)
    build(env.from_collection(["q" if value == "x" else value for value in VALUES])).print()
    simulation = simulate(env, 1, CALM)
    simulation.run()
    error = simulation.driver.master.error
    assert isinstance(error, UserFunctionError) and "SystemExit: no more of these" in str(error), simulation.results
    assert "operator '" in str(error)


def test_a_loop_that_a_function_ends_is_an_error() -> None:
    """What comes out of a map would be shorter than what went in."""
    with pytest.raises(RuntimeError, match=r"StopIteration.*next\(iterator, default\)"):
        results_of(stops, len(VALUES), VALUES)
    assert results_of(lambda a, b: a + b, 2, [1, 2], [3, 4]) == [4, 6]
