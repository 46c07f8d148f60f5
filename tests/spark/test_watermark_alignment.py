"""Watermark alignment through the real engine: a fast source waits for a slow one."""

from __future__ import annotations

import pytest
from tests.spark.jobs import collect, environment

from penstock.common import Duration, WatermarkStrategy
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.rate_limiter import RateLimiterStrategy

pytestmark = pytest.mark.spark

FAST, SLOW = 30_000, 300


def test_a_fast_source_waits_for_a_slow_one() -> None:
    """All that the fast one reads would be held in windows until the slow one has come as far."""
    env = environment(parallelism=1)
    strategy = (
        WatermarkStrategy.for_monotonous_timestamps()
        .with_timestamp_assigner(lambda value, before: value[1])
        .with_watermark_alignment("both", Duration.of_millis(500), Duration.of_millis(50))
    )
    # Event time in milliseconds: ten seconds a second, and one.
    fast = DataGeneratorSource(lambda i: ("fast", i), FAST, RateLimiterStrategy.per_second(10_000))
    slow = DataGeneratorSource(lambda i: ("slow", i * 10), SLOW, RateLimiterStrategy.per_second(100))
    both = env.from_source(fast, strategy, "fast").union(env.from_source(slow, strategy, "slow"))
    values = collect(both)
    assert len(values) == FAST + SLOW, "nothing is lost while it waits, and it goes on when the other has ended"
    before = values[: values.index(("slow", (SLOW - 1) * 10))]
    ahead = max(time for name, time in before if name == "fast")
    assert ahead < FAST / 2, f"{ahead} ms, when the slow one was at {SLOW * 10}"
