"""Several jobs of one process: they share its session, and one that does not fit is refused with the numbers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.spark.jobs import collect, environment, failure_of, wait_until_running

from penstock.common import JobStatus, WatermarkStrategy
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.connectors.base.rate_limiter import RateLimiterStrategy

pytestmark = pytest.mark.spark
NONE = WatermarkStrategy.no_watermarks()


def counted(parallelism: int) -> dict[int, int]:
    """The results of a bounded job, which needs twice as many slots as its parallelism, and one that collects."""
    env = environment(parallelism=parallelism)
    numbers = env.from_source(NumberSequenceSource(0, 99), NONE, "numbers").map(lambda v: (v % 5, 1))
    return dict(collect(numbers.key_by(lambda v: v[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))))


def slots_of_the_session() -> tuple[Any, int]:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    return session.sparkContext.applicationId, session.sparkContext.defaultParallelism


def test_jobs_of_one_process_side_by_side() -> None:
    """The second job would stop the session of the first one, or wait for ever with half of its tasks."""
    counts = dict.fromkeys(range(5), 20)
    assert counted(2) == counts
    env = environment(parallelism=1)
    endless = DataGeneratorSource(lambda i: i, rate_limiter_strategy=RateLimiterStrategy.per_second(100))
    env.from_source(endless, NONE, "endless").key_by(lambda v: v % 3).map(lambda v: v).filter(lambda v: False).print()
    first = env.execute_async("the first")
    try:
        wait_until_running(first)
        application, slots = slots_of_the_session()
        assert counted(1) == counts, "it fits beside the first"

        wide = (slots - 1) // 2
        refused = failure_of(lambda: counted(wide))
        needed = 2 * wide + 1
        assert f"needs {needed} slots at once" in refused
        # Sessions of other tests have a number of attempts in their master too.
        assert f"local[{slots}" in refused
        assert f" has {slots}, of which other jobs of this process hold 2: 'the first' (2)" in refused
        assert f"spark.master: local[{needed + 2}]" in refused
        assert first.get_job_status().result() is JobStatus.RUNNING
        assert slots_of_the_session() == (application, slots), "its session goes on"
        assert counted(1) == counts, "what was refused holds nothing"
    finally:
        first.cancel().result()
