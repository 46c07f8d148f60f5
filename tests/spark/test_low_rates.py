"""A record that comes alone arrives as soon as one among many."""

from __future__ import annotations

import time

import pytest
from tests.spark.jobs import STREAMING, environment

from penstock.common import WatermarkStrategy
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.rate_limiter import RateLimiterStrategy

pytestmark = pytest.mark.spark
GENEROUS_MS = 5_000


def test_one_record_a_second_through_three_exchanges() -> None:
    """An alarm that happens once a minute would wait in a buffer for the next one."""
    env = environment(STREAMING, 1)
    source = DataGeneratorSource(lambda i: (i, time.time()), None, RateLimiterStrategy.per_second(1))
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "alarms")
    for _ in range(3):
        stream = stream.key_by(lambda alarm: alarm[0]).map(lambda alarm: alarm)
    took = stream.map(lambda alarm: (time.time() - alarm[1]) * 1_000).execute_and_collect(limit=6)

    print("ms through three exchanges:", ", ".join(f"{ms:.1f}" for ms in took))
    assert max(took) < GENEROUS_MS
