"""Windows with an evictor in both modes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.spark.jobs import batched, collect, environment, pipelined

from penstock.common import Time, WatermarkStrategy
from penstock.datastream import RuntimeExecutionMode
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    GlobalWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
)

pytestmark = pytest.mark.spark


@pipelined
def test_a_trigger_of_a_thousand_and_an_evictor_of_a_hundred(mode: RuntimeExecutionMode) -> None:
    """The sums of the last hundred records, a thousand records apart, would be of others, or of all."""
    env = environment(mode)
    numbers = env.from_collection([(n % 2, n) for n in range(5_000)]).key_by(lambda pair: pair[0])
    windowed = numbers.window(GlobalWindows.create()).trigger(CountTrigger.of(1_000)).evictor(CountEvictor.of(100))
    sums = collect(windowed.apply(lambda key, window, pairs: [(key, len(pairs), sum(n for _, n in pairs))]))
    expected = []
    for key in (0, 1):
        of_key = [n for n in range(5_000) if n % 2 == key]
        expected += [(key, 100, sum(of_key[end - 100 : end])) for end in (1_000, 2_000)]
    assert sorted(sums) == sorted(expected)


@batched
def test_the_last_seconds_of_each_minute(mode: RuntimeExecutionMode) -> None:
    """The two modes would disagree about what is in a window."""
    env = environment(mode)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda second, _: second * 1_000)

    def shown(key: Any, window: Any, seconds: Any) -> Any:
        yield window.start, sorted(seconds)

    windowed = (
        env.from_collection(list(range(120)))
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda second: "all")
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .evictor(TimeEvictor.of(Time.seconds(3)))
    )
    assert sorted(collect(windowed.apply(shown))) == [(0, [57, 58, 59]), (60_000, [117, 118, 119])]
