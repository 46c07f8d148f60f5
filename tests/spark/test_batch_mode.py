"""BATCH as Flink has it, on Spark: one key after the other, little memory, results that are kept on disk."""

from __future__ import annotations

import json
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.first_cases import first_of
from tests.spark.jobs import BATCH, collect, environment, failure_of, wait_until

from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.connectors.hybrid_source import HybridSource
from penstock.datastream.functions import KeyedProcessFunction, ProcessWindowFunction
from penstock.datastream.state import ListStateDescriptor
from penstock.datastream.window import EventTimeSessionWindows
from penstock.service.rest.endpoint import endpoint_of

pytestmark = pytest.mark.spark
COUNT = 4_000
ODD: OutputTag[int] = OutputTag("odd")


def stamped(env: StreamExecutionEnvironment, count: int = COUNT) -> Any:
    """Numbers whose timestamps go to and fro."""
    strategy: Any = WatermarkStrategy.for_monotonous_timestamps()
    strategy = strategy.with_timestamp_assigner(lambda number, _: timestamp_of(number))
    numbers = env.from_source(NumberSequenceSource(0, count - 1), WatermarkStrategy.no_watermarks(), "numbers")
    return numbers.assign_timestamps_and_watermarks(strategy)


def timestamp_of(number: int) -> int:
    return number * 7919 % 1009


class Journey(KeyedProcessFunction[int, int, tuple[Any, ...]]):
    """Notes its calls in state, and emits the notes by the last timer of a key."""

    def open(self, runtime_context: Any) -> None:
        self.notes = runtime_context.get_list_state(ListStateDescriptor("notes", Types.LONG()))
        self.keys: list[int] = []

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        if not self.keys or self.keys[-1] != ctx.get_current_key():
            assert ctx.get_current_key() not in self.keys, "a key came again"
            self.keys.append(ctx.get_current_key())
        self.notes.add(value)
        ctx.timer_service().register_event_time_timer(10_000)
        ctx.timer_service().register_processing_time_timer(0)
        if value % 2:
            yield ODD, value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[Any, ...]]:
        ctx.timer_service().register_event_time_timer(timestamp + 1)
        yield ctx.get_current_key(), ctx.time_domain().name, timestamp, tuple(self.notes.get())


@pytest.mark.parametrize(
    ("memory", "backend"),
    first_of(2, [("10 kb", "hashmap"), ("128 mb", "rocksdb"), ("10 kb", "rocksdb"), ("128 mb", "hashmap")]),
)
def test_one_key_after_the_other_by_time(memory: str, backend: str) -> None:
    """Functions that rely on Flink's order in BATCH would give wrong results, with more data than memory too."""
    env = environment(BATCH, settings={"execution.sorted-inputs.memory": memory, "state.backend.type": backend})
    journeys = stamped(env).key_by(lambda number: number % 40).process(Journey())
    side = journeys.get_side_output(ODD).map(lambda number: ("odd", number))
    calls = defaultdict(list)
    for key, *call in collect(journeys.union(side)):
        calls[key].append(tuple(call))

    assert sorted(number for (number,) in calls.pop("odd")) == list(range(1, COUNT, 2))
    assert set(calls) == set(range(40))
    for key, of_key in calls.items():
        first, second = of_key
        assert (first[:2], second[:2]) == (("EVENT_TIME", 10_000), ("PROCESSING_TIME", 0))
        times = [timestamp_of(number) for number in first[2]]
        assert times == sorted(times)
        assert sorted(first[2]) == list(range(key, COUNT, 40))


class Bounds(ProcessWindowFunction[int, tuple[Any, ...], int, Any]):
    def process(self, key: int, context: Any, elements: Any) -> Iterator[tuple[Any, ...]]:
        yield key, context.window().start, context.window().end, sorted(elements)

    def clear(self, context: Any) -> None:
        pass


def test_session_windows_are_those_of_streaming() -> None:
    """A session would be split where its records were far apart in the input."""
    sessions = []
    for mode in (BATCH, None):
        env = environment(*([mode] if mode else []))
        # In STREAMING nothing is late, as no watermark comes before the end.
        strategy: Any = WatermarkStrategy.no_watermarks()
        strategy = strategy.with_timestamp_assigner(lambda number, _: number * number * 31 % 10_007)
        numbers = env.from_source(NumberSequenceSource(0, 999), strategy, "numbers")
        windows = numbers.key_by(lambda number: number % 3).window(EventTimeSessionWindows.with_gap(40))
        sessions.append(sorted(collect(windows.process(Bounds()))))
    assert sessions[0] == sessions[1]
    assert len(sessions[0]) > 10


def test_reduce_keeps_the_latest_by_time() -> None:
    """The last value of a key would be the one that was read last."""
    env = environment(BATCH)
    numbers = collect(stamped(env).key_by(lambda number: number % 5).reduce(lambda a, b: b))
    latest = {number % 5: number for number in numbers}
    assert len(numbers) == 5
    assert {key: timestamp_of(number) for key, number in latest.items()} == {
        key: max(timestamp_of(number) for number in range(key, COUNT, 5)) for key in range(5)
    }


def test_many_results_come_in_order_and_once(tmp_path: Path) -> None:
    """Results would be lost or doubled on their way by the driver's disk."""
    env = environment(BATCH)
    numbers = env.from_source(NumberSequenceSource(0, 299_999), WatermarkStrategy.no_watermarks(), "numbers")
    values = collect(numbers.map(lambda number: (number, "x" * 20)))
    assert sorted(number for number, _ in values) == list(range(300_000))


def test_a_failing_batch_has_no_results() -> None:
    """A part of the results would be taken for all of them."""
    env = environment(BATCH)
    seen: list[int] = []

    def run() -> None:
        with stamped(env).map(lambda number: 1 // (number - COUNT + 1)).execute_and_collect() as values:
            seen.extend(values)

    assert "ZeroDivisionError" in failure_of(run)
    assert seen == []


def test_two_sources_in_turn_with_dicts_as_keys_and_a_cached_result(tmp_path: Path) -> None:
    """The second job of a notebook would compute all again, or not find what the first one has kept."""
    calls = tmp_path / "calls"

    def noted(value: tuple[int, int]) -> tuple[int, int]:
        with calls.open("a") as file:
            file.write(".")
        return value

    env = environment(BATCH, 2)
    source = HybridSource.builder(NumberSequenceSource(0, 9)).add_source(NumberSequenceSource(10, 19)).build()
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    pairs = numbers.map(lambda number: (number % 3, number)).key_by(lambda pair: {"rest": [pair[0]]})
    cached = pairs.sum(1).map(noted).cache()
    assert sorted(collect(cached)) == [(0, 63), (1, 70), (2, 57)]
    assert sorted(collect(cached.map(lambda pair: pair[1]))) == [57, 63, 70]
    assert calls.read_text() == "..."


def test_a_batched_job_is_seen_over_rest_while_its_tasks_run(tmp_path: Path, process_without_endpoint: None) -> None:
    """Nobody would know how far a job of an hour has come."""
    go = tmp_path / "go"

    def wait(value: int) -> int:
        while not go.exists():
            time.sleep(0.01)
        return value

    env = environment(BATCH, 1, {"rest.bind-port": "0"})
    env.from_collection([1, 2]).map(wait).key_by(lambda n: n).reduce(max).print()
    client = env.execute_async("slow")
    endpoint = endpoint_of(Configuration(), "0")
    assert endpoint is not None

    def details() -> Any:
        url = f"{endpoint.address.url}/jobs/{client.get_job_id()}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {endpoint.token}"})
        return json.load(urllib.request.urlopen(request, timeout=60))

    wait_until(lambda: details()["vertices"][0]["status"] == "RUNNING", "no task runs", 120)
    assert details()["vertices"][1]["status"] == "CREATED" and details()["job-type"] == "BATCH"
    go.touch()
    client.get_job_execution_result().result()
    ended = details()
    assert [vertex["status"] for vertex in ended["vertices"]] == ["FINISHED"] * 2 and ended["state"] == "FINISHED"
    assert ended["vertices"][1]["metrics"]["read-records"] == 2
