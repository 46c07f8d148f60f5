"""Loops whose feedback is separate from the input, under random schedules and faults."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.simulation.programs import environment, explained, script, scripted, simulate

from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.functions import CoProcessFunction
from penstock.hosts.simulator import Circumstances

pytestmark = pytest.mark.simulation

AGAIN: OutputTag[Any] = OutputTag("again")


class Halve(CoProcessFunction[Any, Any, Any]):
    """Halves the record's number until it is odd or zero, and counts the turns."""

    def process_element1(self, value: Any, ctx: Any) -> Any:
        split, (position,), _, number = value
        yield AGAIN, (split, position, number, 0)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        split, position, number, turns = value
        if number % 2 or not number:
            yield split, position, number, turns
        else:
            yield AGAIN, (split, position, number // 2, turns + 1)


def halving(parallelism: int) -> StreamExecutionEnvironment:
    """Return a program that halves each number of its splits until it is odd."""
    env = environment(parallelism)
    source = scripted(*(script(split, 12) for split in range(3)))
    numbers = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "numbers")
    loop = numbers.iterate().with_feedback_type()
    halved = loop.process(Halve())
    loop.close_with(halved.get_side_output(AGAIN).rebalance())
    halved.print()
    return env


def expected() -> list[tuple[str, int, int, int]]:
    """Return the records that leave the loop."""
    found = []
    for split in range(3):
        for position in range(12):
            number, turns = position, 0
            while number and number % 2 == 0:
                number, turns = number // 2, turns + 1
            found.append((f"s{split}", position, number, turns))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_each_record_leaves_the_loop_once(seed: int) -> None:
    """Feedback of another type would be lost or doubled after a failure, or the loop would never end."""
    calm = Circumstances(jump_rate=0.0)
    simulation = simulate(halving(1 + seed % 3), seed, calm if seed % 2 else Circumstances.draw(Random(seed)))
    with explained(simulation):
        status = simulation.run()
        values = [tuple(value) for values in simulation.results.values() for value in values]
        if status is JobStatus.FINISHED and not simulation.driver.drained:
            assert set(values) == set(expected())
        if seed % 2:
            assert status is JobStatus.FINISHED
            assert sorted(values) == sorted(expected())
