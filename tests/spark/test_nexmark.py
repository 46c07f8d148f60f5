"""The events of Nexmark in a job on Spark."""

from __future__ import annotations

import datetime
from collections import Counter

import pytest
from tests.spark.jobs import STREAMING, environment

from penstock.common import Duration, Time, WatermarkStrategy
from penstock.datastream.connectors.nexmark import NexmarkConfiguration, NexmarkGenerator, NexmarkSource
from penstock.datastream.window import TumblingEventTimeWindows

pytestmark = pytest.mark.spark
WINDOW_MS = 100
EPOCH, WINDOW = datetime.datetime(1970, 1, 1), datetime.timedelta(milliseconds=WINDOW_MS)


@pytest.mark.parametrize(("on_columns", "count"), [(True, 15_000), (False, 3_000)])
def test_events_are_counted_by_kind_and_time(on_columns: bool, count: int) -> None:
    """A job would lose events, or give them other times, on columns or on rows."""
    env = environment(STREAMING, 2)
    source = NexmarkSource.builder().set_event_count(count).build()
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(4))
    events = env.from_source(source, watermarks, "events")
    events = events.as_columns() if on_columns else events
    counts = (
        events.key_by("event_type")
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        .aggregate({"start": "window_start", "n": "count"})
    )
    with counts.execute_and_collect() as results:
        found = {(row["event_type"], row["start"]): row["n"] for row in results}
    expected: Counter[tuple[int, int]] = Counter()
    for event in (
        NexmarkGenerator(NexmarkConfiguration()).events(0, count).select(["event_type", "dateTime"]).to_pylist()
    ):
        expected[event["event_type"], (event["dateTime"] - EPOCH) // WINDOW * WINDOW_MS] += 1
    assert found == expected
