"""Jobs without a checkpoint interval, whose workers are killed after savepoints."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from tests.simulation.programs import TIGHT, environment, explained, script, scripted, simulate

from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.simulator.functions import Add, key_of
from penstock.simulator.outside import Results
from penstock.simulator.sinks import RecordingSink

pytestmark = pytest.mark.simulation


def program() -> StreamExecutionEnvironment:
    """Two exchanges, and a sink that commits."""
    env = environment()
    source = scripted(script(0, 60), script(1, 60))
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "source")
    stream.rebalance().map(Add(0)).key_by(key_of).map(Add(0)).sink_to(RecordingSink("sink"))
    return env


@pytest.mark.parametrize("seed", range(30))
def test_a_job_goes_on_from_the_savepoint_that_it_has_committed(seed: int) -> None:
    """Output that was committed with a savepoint would be written a second time."""
    circumstances = dataclasses.replace(
        TIGHT, savepoints_only=True, savepoint_at_steps=tuple(range(40, 600, 20)), crash_at_steps=(200 + 7 * seed, 500)
    )
    simulation, plain = simulate(program(), seed, circumstances), simulate(program(), seed)
    with explained(simulation):
        assert simulation.run() is JobStatus.FINISHED
    assert plain.run() is JobStatus.FINISHED
    assert count(simulation.results) == count(plain.results)


def count(results: Results) -> Counter:
    """How often each value came, whatever the subtask."""
    return Counter(str(value) for values in results.values() for value in values)
