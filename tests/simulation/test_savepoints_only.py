"""Jobs without a checkpoint interval, whose workers are killed after savepoints."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from tests.simulation.programs import TIGHT, environment, explained, script, scripted, seeds, simulate

from penstock.common.errors import TaskLostError
from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.jobmaster import ending
from penstock.engine.jobmaster.results.collected import AttemptResults
from penstock.engine.runtime.operators.sink import SinkOperator
from penstock.hosts.simulator.functions import Add, key_of
from penstock.hosts.simulator.outside import Results
from penstock.hosts.simulator.sinks import RecordingSink
from penstock.hosts.simulator.storage import MemoryRun

pytestmark = pytest.mark.simulation


def program() -> StreamExecutionEnvironment:
    """Two exchanges, and a sink that commits."""
    env = environment()
    source = scripted(script(0, 60), script(1, 60))
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "source")
    stream.rebalance().map(Add(0)).key_by(key_of).map(Add(0)).sink_to(RecordingSink("sink"))
    return env


@pytest.mark.parametrize("seed", seeds(12, 40))
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


def uneven() -> StreamExecutionEnvironment:
    """Two pipelines without an exchange: one ends early, and of the other one subtask does."""
    env = environment()
    for number, pauses in enumerate(((), ((8, 60_000), (12, 60_000)))):
        source = scripted(script(0, 10), script(1, 20, pauses=pauses))
        stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), f"source {number}")
        stream.map(Add(number)).sink_to(RecordingSink(f"sink {number}"))
    return env


def run_uneven(seed: int) -> None:
    """Savepoints are taken, aborted, and crashed after; some jobs stop with one and go on from there."""
    circumstances = dataclasses.replace(
        TIGHT,
        savepoints_only=True,
        has_directory=seed % 4 < 2,
        savepoint_at_steps=tuple(range(60 + seed, 500, 25)),
        crash_at_steps=(150 + 9 * seed,),
        crash_rate=1.0,
        full_failover=seed % 2 == 0,
        stop_rate=0.2,
        upload_failure_rate=0.1 if seed % 3 == 0 else 0.0,
        upload_ms_max=500,
        checkpoint_timeout_ms=400 if seed % 5 == 0 else 60_000,
    )
    simulation, plain = simulate(uneven(), seed, circumstances), simulate(uneven(), seed)
    with explained(simulation):
        assert simulation.run() is JobStatus.FINISHED
        assert plain.run() is JobStatus.FINISHED
        assert count(simulation.results) == count(plain.results)


@pytest.mark.parametrize("seed", [*seeds(10, 20), 30])
def test_what_had_ended_before_a_savepoint_is_committed_once(seed: int) -> None:
    """The savepoint restores a subtask as ended: its output is written by no one any more."""
    run_uneven(seed)


def collected() -> StreamExecutionEnvironment:
    """One pipeline, whose results the program is given."""
    env = environment()
    source = scripted(script(0, 30), script(1, 30))
    env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "source").map(Add(0)).print()
    return env


def run_collected(seed: int) -> str:
    """A program collects results, and workers are killed. Whether the job was restarted at all, and to its end."""
    circumstances = dataclasses.replace(
        TIGHT,
        savepoints_only=True,
        savepoint_at_steps=tuple(range(20, 300, 10)),
        stop_rate=0.0,
        crash_at_steps=(15 + 5 * seed,),
        crash_rate=1.0,
        driver_crash_rate=0.0,
    )
    simulation, plain = simulate(collected(), seed, circumstances), simulate(collected(), seed)
    with explained(simulation):
        while simulation.driver.finish is None:
            simulation.step()
        assert plain.run() is JobStatus.FINISHED
        status, error = simulation.driver.finish.status, simulation.driver.finish.error
        given, expected = count(simulation.results), count(plain.results)
        assert given <= expected, "results came twice"
        if status is JobStatus.FINISHED:
            assert given == expected
        else:
            assert isinstance(error, TaskLostError)
    if "execution.checkpointing.interval" in str(error):
        return "refused"
    return "restarted" if simulation.driver.master.restarts else "ended"


def test_collected_results_do_not_come_twice() -> None:
    """A restart would give the program again what it has been given, unless a savepoint has come in between."""
    assert {"restarted", "refused"} <= {run_collected(seed) for seed in range(40)}


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


@pytest.mark.parametrize("seed", seeds(8, 40))
def test_of_two_runs_one_commits(seed: int) -> None:
    """A run that was only stopped would commit at its end what the run has committed that has taken its place."""
    run_two(seed)


def run_killed(seed: int) -> None:
    """Drivers are killed while they commit their output at the end, and started again."""
    random = Random(seed)
    circumstances = dataclasses.replace(
        TIGHT, savepoints_only=True, savepoint_at_steps=(90, 300) if seed % 2 else (), checkpoint_at_steps=(1_000_000,)
    )
    simulation, plain = simulate(program(), seed, circumstances), simulate(program(), seed)
    kills = 3
    with explained(simulation):
        while simulation.driver.finish is None:
            simulation.step()
            if kills and simulation.results and random.random() < 0.4 and simulation.driver.finish is None:
                kills -= 1
                simulation.crash_driver()
        assert plain.run() is JobStatus.FINISHED
        assert count(simulation.results) == count(plain.results)


@pytest.mark.parametrize("seed", seeds(8, 40))
def test_a_driver_that_dies_at_the_end_is_started_again(seed: int) -> None:
    """A part of the output would be there and the rest not, and to start the job again would repeat that part."""
    run_killed(seed)


def no_last_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """What is left is committed at the end by no checkpoint, whoever holds the record."""
    patch.setattr(ending, "has_committers", lambda graph: False)


def savepoints_not_on_record(patch: pytest.MonkeyPatch) -> None:
    """A run that takes over knows nothing of the output that was committed with a savepoint."""
    patch.setattr(MemoryRun, "saved", lambda self, savepoint, checkpoint: None)


def sent_when_the_data_has_ended(patch: pytest.MonkeyPatch) -> None:
    """A sink sends what it has prepared when its data has ended: a savepoint does not name it."""
    finish = SinkOperator.finish

    def finish_and_send(self: SinkOperator) -> bool:
        done = finish(self)
        self.job_ended()
        self.prepare_snapshot(0)
        return done

    patch.setattr(SinkOperator, "finish", finish_and_send)


def restarted_whatever_was_collected(patch: pytest.MonkeyPatch) -> None:
    """The program is given results again by a restart."""
    patch.setattr(AttemptResults, "would_come_again", lambda self, restored_id, from_checkpoint: False)


def carried_to_nowhere(patch: pytest.MonkeyPatch) -> None:
    """What was prepared for a savepoint that was aborted is not committed with any other one."""
    patch.setattr(CheckpointCoordinator, "take_carried", lambda self: [])


@pytest.mark.parametrize(
    ("fault", "run"),
    [
        (no_last_checkpoint, run_two),
        (no_last_checkpoint, run_killed),
        (savepoints_not_on_record, run_two),
        pytest.param(sent_when_the_data_has_ended, run_uneven, marks=pytest.mark.soak),
        (carried_to_nowhere, run_uneven),
        (restarted_whatever_was_collected, run_collected),
    ],
)
def test_it_is_found_if_it_is_broken(
    fault: Callable[[pytest.MonkeyPatch], None], run: Callable[[int], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above would not notice."""
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        # The last first: one of them is the only one that finds what is carried to nowhere.
        for seed in reversed(range(31)):
            run(seed)
