"""Real data with counted answers, through single operators."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from penstock.common import WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator, WatermarkOutput
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.state import ValueStateDescriptor
from penstock.testing import KeyedOneInputHarness, OperatorHarness
from penstock.testing.conformance.source import read_all

DATA = Path(__file__).parents[3] / "shared" / "data"
SHIPS = "ais-us-2022/ais_2022-01-03_first-99999.csv.gz"
LATE = {0: 99_217, 30: 93_869, 60: 83_351, 120: 54_154, 180: 24_157, 240: 7_939, 300: 2_859, 600: 1_039, 900: 7, 960: 0}
"""Seconds behind the highest believed time -> how many of the ships' reports are later than that."""


def source(name: str, file_format: Any) -> FileSource:
    if not (DATA / name).exists():
        pytest.skip(f"the shared data set {name} is not on this machine")
    return FileSource.for_record_stream_format(file_format, DATA / name).build()


class FirstOnly(KeyedProcessFunction[Any, Any, Any]):
    """The first record of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        if not self.seen.value():
            self.seen.update(True)
            yield value


@pytest.mark.thorough
def test_queries_that_were_captured_twice() -> None:
    """The step that half of all pipelines begin with would let some through, or too few."""
    records = read_all(source("zeek-wrccdc/dns.json.gz", StreamFormat.json_lines_format()), 1)
    key = lambda record: tuple(record.get(name) for name in ("uid", "trans_id", "query", "qtype"))  # noqa: E731
    with KeyedOneInputHarness(FirstOnly(), key) as harness:
        for record in records:
            harness.push(record)
        assert len(harness.outputs()) == 24_600


class Believed(WatermarkGenerator):
    """Behind the highest time that is believed: a jump ahead is, when so many records in a row are beyond it."""

    def __init__(self, bound_ms: int, jump_ms: int = 600_000, confirmations: int = 100) -> None:
        self.bound_ms = bound_ms
        self.jump_ms = jump_ms
        self.confirmations = confirmations
        self.highest: int | None = None
        self.beyond = 0

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if self.highest is not None and event_timestamp > self.highest + self.jump_ms:
            self.beyond += 1
            if self.beyond < self.confirmations:
                return
        self.beyond = 0
        self.highest = event_timestamp if self.highest is None else max(self.highest, event_timestamp)
        output.emit_watermark(self.highest - self.bound_ms - 1)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """A watermark follows each record."""


@cache
def ship_times() -> list[int]:
    ships = read_all(source(SHIPS, StreamFormat.csv_format()), 1)
    return [
        int(dt.datetime.fromisoformat(ship["BaseDateTime"]).replace(tzinfo=dt.UTC).timestamp() * 1000) for ship in ships
    ]


@pytest.mark.thorough
def test_times_from_the_far_future_do_not_make_all_others_late() -> None:
    """One clock that is wrong, in record 99 of 99,999, would make all that follow late."""
    times = ship_times()
    strategy = WatermarkStrategy.for_generator(lambda: Believed(0)).with_timestamp_assigner(lambda time, _: time)
    behind: list[int] = []
    with OperatorHarness(lambda stream: stream.assign_timestamps_and_watermarks(strategy)) as harness:
        watermark = -(2**63)
        for time in times:
            behind.append(watermark + 1 - time)
            harness.push(time)
            if harness.watermarks():
                watermark = harness.watermarks()[-1]
    behind.sort()
    midnight = min(times) - min(times) % 86_400_000
    believed = [time for time in times if time < midnight + 3_600_000]
    assert len(times) - len(believed) == 352
    assert {seconds: len(times) - bisect_left(behind, seconds * 1000 + 1) for seconds in LATE} == LATE
    assert len(Counter(time // 60_000 for time in believed)) == 26
