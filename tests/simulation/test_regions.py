"""Unconnected pipelines of one job: a killed worker restarts only its own pipeline, under any schedule."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from tests.simulation.programs import TIGHT, environment, explained, script, scripted, seeds, simulate

from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.hosts.simulator import Simulation
from penstock.hosts.simulator.functions import Add, key_of
from penstock.hosts.simulator.sinks import RecordingSink

pytestmark = pytest.mark.simulation

CALM = dataclasses.replace(TIGHT, checkpoint_at_steps=tuple(range(60, 2_000, 120)), restart_strategy=1)
PAUSE_MS = 120_000


def pipelines() -> StreamExecutionEnvironment:
    """Return two pipelines, each with an exchange; their sources pause until the events of the test have happened."""
    env = environment(parallelism=2)
    for number in range(2):
        source = scripted(*(script(split, 20, pauses=((15, PAUSE_MS),)) for split in range(2)))
        stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), f"source {number}")
        stream.key_by(key_of).map(Add(0)).sink_to(RecordingSink(f"sink {number}"))
    return env


def attempts(simulation: Simulation) -> list[int]:
    return [region.attempt.number for region in simulation.master.regions]


def steps_until(simulation: Simulation, condition: object) -> None:
    while not condition():  # type: ignore[operator]
        simulation.step()


@pytest.mark.parametrize("full", [False, True], ids=["region", "full"])
@pytest.mark.parametrize("seed", seeds(3, 40))
def test_a_killed_worker_restarts_its_own_region(seed: int, full: bool) -> None:
    """A job of many pipelines would stop completely for each killed worker."""
    simulation = simulate(pipelines(), seed, dataclasses.replace(CALM, full_failover=full))
    with explained(simulation):
        begins = 60 + 20 * seed
        steps_until(simulation, lambda: simulation.status is JobStatus.RUNNING and simulation.trace.steps > begins)
        workers = dict(simulation.hosts)
        simulation.faults.crash()
        killed = {slot.level for slot, host in simulation.hosts.items() if host.is_frozen}
        (victim,) = {simulation.master.regions.of_level(level).index for level in killed}
        steps_until(simulation, lambda: sum(attempts(simulation)) and simulation.status is JobStatus.RUNNING)
        assert attempts(simulation) == ([1, 1] if full else [int(region == victim) for region in range(2)])
        stayed = [simulation.hosts[slot] is workers[slot] for slot in sorted(workers)]
        levels = simulation.master.graph.regions[victim]
        assert stayed == [not full and slot.level not in levels for slot in sorted(workers)]
        assert simulation.run() is JobStatus.FINISHED

    records = Counter(record for values in simulation.results.values() for record, _ in values)
    assert sum(records.values()) == 2 * 2 * 20 and set(records.values()) == {2}, "both pipelines read the same splits"
