"""Barriers in the simulator: they cut all streams at one place."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.simulation.programs import environment, explained, script, scripted, seeds, simulate

from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.hosts.simulator import Simulation

pytestmark = pytest.mark.simulation


MINUTE_MS = 60_000


def diamond() -> StreamExecutionEnvironment:
    """One source, two branches of unequal length, joined again."""
    env = environment()
    source = scripted(script(0, 40, pauses=((20, MINUTE_MS),)), script(1, 25, pauses=((10, MINUTE_MS),)))
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "source")
    short = stream.filter(lambda value: value[3] % 2 == 0).disable_chaining()
    long = stream.rebalance().map(lambda value: value).rebalance().map(lambda value: value)
    short.union(long).key_by(lambda value: value[2]).map(lambda value: value).print()
    return env


def running(simulation: Simulation) -> None:
    """Run the job to the middle of its work, where its sources pause, so that it does not end before a barrier."""
    while not simulation.results or simulation.status is not JobStatus.RUNNING:
        simulation.step()


@pytest.mark.parametrize("seed", seeds(5, 40))
def test_one_acknowledgement_of_each_task_and_one_cut_through_a_diamond(seed: int) -> None:
    """A restored job would have a record on one branch and not on the other. (The cuts are compared by CutChecks.)"""
    simulation = simulate(diamond(), seed)
    with explained(simulation):
        running(simulation)
        simulation.user.trigger_checkpoint()
        tasks = [(v, index) for host in simulation.hosts.values() for v, index in tasks_of(host)]
        while len(simulation.acknowledged) < len(tasks):
            simulation.step()

    assert Counter((a.vertex, a.subtask) for a in simulation.acknowledged) == Counter(tasks)
    assert simulation.cuts > 0


def tasks_of(host: object) -> list[tuple[int, int]]:
    """Return (vertex, subtask) of the tasks of a slot."""
    slot = host.slot  # type: ignore[attr-defined]
    return [(vertex, task.info.subtask) for vertex, task in slot.tasks.items()]


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_checkpoints_that_overtake_each_other_are_all_answered(seed: int) -> None:
    """One slow checkpoint would keep all later ones from being taken."""
    simulation = simulate(diamond(), seed)
    with explained(simulation):
        running(simulation)
        first, second = simulation.user.trigger_checkpoint(), simulation.user.trigger_checkpoint()
        assert simulation.run() is JobStatus.FINISHED

    answers = Counter(a.checkpoint_id for a in [*simulation.acknowledged, *simulation.declined])
    assert answers[first] == answers[second] > 0


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_an_aborted_checkpoint_holds_nothing_back(seed: int) -> None:
    """An aborted checkpoint would stop the job forever: records that were set aside would never be replayed."""
    simulation = simulate(diamond(), seed)
    with explained(simulation):
        running(simulation)
        first = simulation.user.trigger_checkpoint()
        for _ in range(seed * 3):
            simulation.step()
        simulation.user.abort_checkpoint(first)
        assert simulation.run() is JobStatus.FINISHED

    assert sum(map(len, simulation.results.values())) == 65 + 33
