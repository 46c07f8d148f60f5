"""What the simulator may expect of a run, and what it may not: it once took these for faults."""

from __future__ import annotations

import dataclasses
from random import Random

import pytest

from penstock.engine.runtime.task.events import Opaque, Result
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.programs import Node, Program, SplitScript
from penstock.hosts.simulator.runs import run_program
from penstock.hosts.simulator.step_limit import STEPS_MAX, STEPS_PER_RECORD, StepLimit

pytestmark = pytest.mark.simulation

SCRIPT = SplitScript("s", 0, tuple((("s", (number,), number % 2, number), number) for number in range(40)))
SOURCE = {
    "splits": [SCRIPT], "shared": False, "interleaved": False, "chunk": 1, "timed": True, "assigner": False,
    "watermarks": "punctuated", "bound_ms": 0, "idle_ms": None,
}  # fmt: skip
CALLS = {"ordered": True, "capacity": 5, "timeout_ms": 10_000, "delay_ms": 5, "fails_each": 0, "amount": 4}


@pytest.mark.parametrize("seed", range(6))
def test_what_is_in_flight_in_several_subtasks_meets_in_one_after_a_rescale(seed: int) -> None:
    """A seed fails now and then, and nobody trusts the others."""
    program = Program(
        (
            Node(0, "source", (), 1, SOURCE),
            Node(1, "async_add", (0,), 2, CALLS),
            Node(2, "write", (1,), 2),
        ),
        exact_time=False,
    )
    drawn = Circumstances.draw(Random(seed))
    often = dataclasses.replace(drawn, rescale_rate=1.0, driver_crash_rate=0.02, checkpoint_interval_ms=20)
    run_program(program, often, seed, named=False)


def test_a_long_job_goes_on() -> None:
    """A large program fails its seed."""
    step_limit = StepLimit()
    for steps in range(0, 3 * STEPS_MAX, 50):
        step_limit.reported(Result(0, 0, 0, Opaque([])))
        step_limit.check(steps)


def test_a_job_without_results_has_to_end() -> None:
    """A deadlock would not be reported."""
    step_limit = StepLimit()
    step_limit.check(STEPS_MAX - 1)
    with pytest.raises(AssertionError, match="livelock"):
        step_limit.check(STEPS_MAX)


def test_a_job_of_many_records_has_more_time_for_its_first_result() -> None:
    """Joins of thousands of records fail their seeds if they are batched, or their sinks commit at the end."""
    step_limit = StepLimit(lambda: 1_000)
    step_limit.check(STEPS_MAX)
    step_limit.check(STEPS_MAX + 1_000 * STEPS_PER_RECORD - 1)
    with pytest.raises(AssertionError, match="livelock"):
        step_limit.check(STEPS_MAX + 1_000 * STEPS_PER_RECORD)


def test_a_job_with_results_has_to_end_some_time() -> None:
    """A job that fails and restarts forever would not be reported."""
    step_limit = StepLimit()
    with pytest.raises(AssertionError, match="livelock"):
        for steps in range(0, 30 * STEPS_MAX, 50):
            step_limit.reported(Result(0, 0, 0, Opaque([])))
            step_limit.check(steps)
