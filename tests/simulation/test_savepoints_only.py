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
    """Return a program with two exchanges, and a sink that commits."""
    env = environment()
    source = scripted(script(0, 60), script(1, 60))
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "source")
    stream.rebalance().map(Add(0)).key_by(key_of).map(Add(0)).sink_to(RecordingSink("sink"))
    return env


@pytest.mark.parametrize("seed", seeds(6, 40))
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
    """Return two pipelines without an exchange: one ends early, and so does one subtask of the other."""
    env = environment()
    for number, pauses in enumerate(((), ((8, 60_000), (12, 60_000)))):
        source = scripted(script(0, 10), script(1, 20, pauses=pauses))
        stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), f"source {number}")
        stream.map(Add(number)).sink_to(RecordingSink(f"sink {number}"))
    return env


def run_uneven(seed: int) -> None:
    """Run a job with savepoints, aborts, and crashes after savepoints; some stop with one and continue from it."""
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


@pytest.mark.parametrize("seed", [*seeds(6, 20), 30])
def test_what_had_ended_before_a_savepoint_is_committed_once(seed: int) -> None:
    """The savepoint restores a subtask as ended, so its output would never be written."""
    run_uneven(seed)


def collected() -> StreamExecutionEnvironment:
    """Return a pipeline whose results go to the program."""
    env = environment()
    source = scripted(script(0, 30), script(1, 30))
    env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "source").map(Add(0)).print()
    return env


def run_collected(seed: int) -> str:
    """Run a program that collects results, while workers are killed; return how the job ended."""
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
        while simulation.driver.end is None:
            simulation.step()
        assert plain.run() is JobStatus.FINISHED
        status, error = simulation.driver.end.status, simulation.driver.end.error
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
    """A restart would repeat results that the program already has, unless there was a savepoint in between."""
    assert {"restarted", "refused"} <= {run_collected(seed) for seed in range(0, 40, 2)}


def count(results: Results) -> Counter:
    """Count each value over all subtasks."""
    return Counter(str(value) for values in results.values() for value in values)


def run_two(seed: int) -> None:
    """Stop drivers before they change the storage; they continue when another run has the job."""
    circumstances = dataclasses.replace(
        TIGHT, savepoints_only=True, checkpoint_at_steps=(30 + seed,), savepoint_at_steps=(90, 300), stopped_rate=0.4
    )
    simulation, plain = simulate(program(), seed, circumstances), simulate(program(), seed)
    with explained(simulation):
        assert simulation.run() is JobStatus.FINISHED
    assert plain.run() is JobStatus.FINISHED
    assert count(simulation.results) == count(plain.results)


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_of_two_runs_one_commits(seed: int) -> None:
    """A run that was only stopped would commit at its end the output that its successor has committed."""
    run_two(seed)


def run_killed(seed: int) -> None:
    """Kill drivers while they commit their output at the end, and start them again."""
    random = Random(seed)
    circumstances = dataclasses.replace(
        TIGHT, savepoints_only=True, savepoint_at_steps=(90, 300) if seed % 2 else (), checkpoint_at_steps=(1_000_000,)
    )
    simulation, plain = simulate(program(), seed, circumstances), simulate(program(), seed)
    kills = 3
    with explained(simulation):
        while simulation.driver.end is None:
            simulation.step()
            if kills and simulation.results and random.random() < 0.4 and simulation.driver.end is None:
                kills -= 1
                simulation.crash_driver()
        assert plain.run() is JobStatus.FINISHED
        assert count(simulation.results) == count(plain.results)


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_a_driver_that_dies_at_the_end_is_started_again(seed: int) -> None:
    """Only a part of the output would be committed, and a new start of the job would repeat that part."""
    run_killed(seed)


def no_last_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """The remaining output is committed at the end without a checkpoint, also by a run that was taken over."""
    patch.setattr(ending, "has_committers", lambda graph: False)


def savepoints_not_on_record(patch: pytest.MonkeyPatch) -> None:
    """A run that takes over does not know of output that was committed with a savepoint."""
    patch.setattr(MemoryRun, "record_savepoint", lambda self, savepoint, checkpoint: None)


def sent_when_the_data_has_ended(patch: pytest.MonkeyPatch) -> None:
    """A sink sends its prepared output when its data has ended, and a savepoint does not name it."""
    finish = SinkOperator.finish

    def finish_and_send(self: SinkOperator) -> bool:
        done = finish(self)
        self.job_ended()
        self.prepare_snapshot(0)
        return done

    patch.setattr(SinkOperator, "finish", finish_and_send)


def restarted_whatever_was_collected(patch: pytest.MonkeyPatch) -> None:
    """A restart repeats results that the program already has."""
    patch.setattr(AttemptResults, "would_repeat", lambda self, restored_id, from_checkpoint: False)


def carried_to_nowhere(patch: pytest.MonkeyPatch) -> None:
    """Output that was prepared for an aborted savepoint is never committed."""
    patch.setattr(CheckpointCoordinator, "take_carried", lambda self: [])


@pytest.mark.thorough
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
