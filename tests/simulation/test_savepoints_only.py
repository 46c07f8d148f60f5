"""Jobs without a checkpoint interval, whose workers are killed after savepoints."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable

import pytest
from tests.simulation.programs import TIGHT, environment, explained, script, scripted, simulate

from penstock.checkpoint.recorded_end import RecordedEnd
from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.simulator.functions import Add, key_of
from penstock.simulator.outside import Results
from penstock.simulator.sinks import RecordingSink
from penstock.simulator.storage import MemoryRun

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


def run_two(seed: int) -> None:
    """Drivers are stopped before they change the storage, and go on when another run has the job."""
    circumstances = dataclasses.replace(
        TIGHT, savepoints_only=True, checkpoint_at_steps=(30 + seed,), savepoint_at_steps=(90, 300), stopped_rate=0.4
    )
    simulation, plain = simulate(program(), seed, circumstances), simulate(program(), seed)
    with explained(simulation):
        assert simulation.run() is JobStatus.FINISHED
    assert plain.run() is JobStatus.FINISHED
    assert count(simulation.results) == count(plain.results)


@pytest.mark.parametrize("seed", range(40))
def test_of_two_runs_one_commits(seed: int) -> None:
    """A run that was only stopped would commit at its end what the run has committed that has taken its place."""
    run_two(seed)


def results_not_announced(patch: pytest.MonkeyPatch) -> None:
    """Results are committed at the end whoever holds the record."""
    patch.setattr(RecordedEnd, "before_results", lambda self, then: then(None))


def savepoints_not_on_record(patch: pytest.MonkeyPatch) -> None:
    """A run that takes over knows nothing of the output that was committed with a savepoint."""
    patch.setattr(MemoryRun, "saved", lambda self, savepoint, checkpoint: None)


@pytest.mark.parametrize("fault", [results_not_announced, savepoints_not_on_record])
def test_it_is_found_if_it_is_broken(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above would not notice."""
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(40):
            run_two(seed)
