"""A program whose event time never advances gets a warning before it starts, and one that works gets none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.common import Duration, WatermarkStrategy
from penstock.datastream import DataStream, KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.connectors.redis import RedisStreamSource
from penstock.datastream.window import (
    CountTrigger,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    Time,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.service.client.event_time_check import event_time_warnings
from penstock.service.client.plan_executor import PlanExecutor

NONE = WatermarkStrategy.no_watermarks()
MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()
HOURS = TumblingEventTimeWindows.of(Time.hours(1))


class Reminder(KeyedProcessFunction):
    """Registers its timer in a method and a function of its own."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        return self._remind(ctx)

    def _remind(self, ctx: KeyedProcessFunction.Context) -> None:
        def register() -> None:
            ctx.timer_service().register_event_time_timer(1)

        register()


class Counter(KeyedProcessFunction):
    """Registers no timer."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        yield value


def endless(env: StreamExecutionEnvironment, strategy: WatermarkStrategy = NONE, name: str = "events") -> DataStream:
    return env.from_source(RedisStreamSource(url="redis://localhost:1/0", streams=["s"]), strategy, name)


def keyed(stream: DataStream) -> Any:
    return stream.key_by(lambda value: 0)


def warnings_of(
    program: Callable[[StreamExecutionEnvironment], DataStream],
    mode: RuntimeExecutionMode = RuntimeExecutionMode.STREAMING,
) -> list[str]:
    executor = PlanExecutor()
    env = StreamExecutionEnvironment(executor=executor).set_runtime_mode(mode)
    program(env).print()
    env.execute()
    (graph,) = executor.graphs
    assert executor.warnings == event_time_warnings(graph)
    return executor.warnings


def summed(stream: DataStream, windows: Any = HOURS) -> DataStream:
    return keyed(stream).window(windows).reduce(lambda a, b: a)  # type: ignore[no-any-return]


STOPPED: dict[str, tuple[Callable[[StreamExecutionEnvironment], DataStream], str]] = {
    "window": (lambda env: summed(endless(env).map(str)), "never emits a window"),
    "sliding window": (
        lambda env: summed(endless(env), SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1))),
        "never emits a window",
    ),
    "trigger in a trigger": (
        lambda env: keyed(endless(env)).window(HOURS).trigger(PurgingTrigger.of(EventTimeTrigger.create())).reduce(max),
        "never emits a window",
    ),
    "one input of two": (lambda env: summed(endless(env).union(endless(env, MONOTONOUS))), "never emits a window"),
    "timer": (lambda env: keyed(endless(env)).process(Reminder()), "never fires its event-time timers"),
    "interval join": (
        lambda env: (
            keyed(endless(env))
            .interval_join(keyed(endless(env, MONOTONOUS)))
            .between(Time.seconds(-1), Time.seconds(1))
            .process(lambda left, right, ctx: [left])
        ),
        "keeps all records for ever",
    ),
}


@pytest.mark.parametrize("name", STOPPED)
def test_an_operator_that_waits_for_event_time_for_ever_is_named(name: str) -> None:
    """The job would run, without an error and without a result, until somebody asks why."""
    program, never = STOPPED[name]
    (warning,) = warnings_of(program)
    assert never in warning
    assert "no watermarks come from 'events'" in warning
    assert "WatermarkStrategy" in warning


FIRING: dict[str, Callable[[StreamExecutionEnvironment], DataStream]] = {
    "watermarks of the source": lambda env: summed(endless(env, MONOTONOUS)),
    "watermarks on the way": lambda env: summed(endless(env).assign_timestamps_and_watermarks(MONOTONOUS)),
    "out of order": lambda env: summed(
        endless(env, WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)))
    ),
    "bounded source": lambda env: summed(env.from_source(NumberSequenceSource(1, 2), NONE, "numbers")),
    "processing time": lambda env: summed(endless(env), TumblingProcessingTimeWindows.of(Time.hours(1))),
    "count": lambda env: keyed(endless(env)).window(GlobalWindows.create()).trigger(CountTrigger.of(2)).reduce(max),
    "no timer": lambda env: keyed(endless(env)).process(Counter()),
    "no time": lambda env: endless(env).map(str),
}


@pytest.mark.parametrize("name", FIRING)
def test_a_program_that_emits_gets_no_warning(name: str) -> None:
    """Warnings of what works are not read, and neither are the others then."""
    assert warnings_of(FIRING[name]) == []


def test_batched_sources_end_so_everything_fires() -> None:
    """In batched mode a program without watermarks is right."""
    assert warnings_of(lambda env: summed(env.from_collection([1])), RuntimeExecutionMode.BATCH) == []


def folders(
    env: StreamExecutionEnvironment, strategy: WatermarkStrategy, assigner: BucketAssigner | None
) -> DataStream:
    builder = FileSink.for_row_format("out", str.encode)
    if assigner is not None:
        builder = builder.with_bucket_assigner(assigner)
    stream = endless(env, strategy).map(str)
    stream.sink_to(builder.build())
    return stream


def test_folders_by_the_clock_in_a_job_with_event_time_are_named() -> None:
    """A replay of yesterday's records would be in today's folders."""
    (warning,) = warnings_of(lambda env: folders(env, MONOTONOUS, None))
    assert "named by the clock" in warning
    assert "event_time_bucket_assigner" in warning

    def twice(env: StreamExecutionEnvironment) -> DataStream[Any]:
        folders(env, MONOTONOUS, None)
        return folders(env, MONOTONOUS, None)

    assert warnings_of(twice) == [warning], "sinks with one name have one warning"
    assert warnings_of(lambda env: folders(env, NONE, None)) == []
    for assigner in (BucketAssigner.event_time_bucket_assigner(), BucketAssigner.base_path_bucket_assigner()):
        assert warnings_of(lambda env, given=assigner: folders(env, MONOTONOUS, given)) == []
