"""Iterations on Spark: loops over several slots that end by themselves, with failures, savepoints and cancellation."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.spark.jobs import STREAMING, collect, environment, lines_to, no_worker_left, wait_until

from penstock.common import WatermarkStrategy
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.connectors.base.rate_limiter import RateLimiterStrategy
from penstock.datastream import KeyedProcessFunction, OutputTag, ProcessFunction, RuntimeExecutionMode
from penstock.datastream.state import ValueStateDescriptor

pytestmark = pytest.mark.spark

AGAIN: OutputTag[Any] = OutputTag("again")
NUMBERS = 300


class Collatz(KeyedProcessFunction[int, Any, Any]):
    """Halves even numbers, and makes odd ones 3 n + 1, until they are 1: (start, number, turns)."""

    def __init__(self, kill_at: str = "") -> None:
        self.kill_at = kill_at

    def open(self, runtime_context: Any) -> None:
        self.turns = runtime_context.get_state(ValueStateDescriptor("turns"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        start, number = value
        turns = (self.turns.value() or 0) + 1
        self.turns.update(turns)
        if number == 1:
            yield start, turns
            return
        if self.kill_at and start == NUMBERS and turns == 3 and not Path(self.kill_at).exists():
            Path(self.kill_at).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield AGAIN, (start, number // 2 if number % 2 == 0 else 3 * number + 1)


def turns_of(number: int) -> int:
    turns = 1
    while number != 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        turns += 1
    return turns


EXPECTED = sorted((number, turns_of(number)) for number in range(1, NUMBERS + 1))


def collatz(env: Any, kill_at: str = "") -> Any:
    numbers = env.from_source(NumberSequenceSource(1, NUMBERS), WatermarkStrategy.no_watermarks(), "numbers")
    head = numbers.map(lambda number: (number, number)).iterate()
    turned = head.key_by(lambda value: value[0]).process(Collatz(kill_at))
    head.close_with(turned.get_side_output(AGAIN).rebalance())
    return turned


def test_a_loop_over_several_slots_ends_when_all_have_left_it() -> None:
    """A loop would lose records between slots, or end too early, or never."""
    env = environment(RuntimeExecutionMode.STREAMING, parallelism=2)
    assert sorted(collect(collatz(env))) == EXPECTED
    no_worker_left()


class Countdown(ProcessFunction[Any, Any]):
    def process_element(self, value: int, ctx: Any) -> Any:
        if value == 0:
            yield "done"
        else:
            yield AGAIN, value - 1


def test_a_loop_within_one_slot() -> None:
    """What a slot feeds back to itself takes no socket, and would not be taken."""
    env = environment(RuntimeExecutionMode.STREAMING, parallelism=1)
    head = env.from_collection([0, 7, 500]).iterate()
    counted = head.process(Countdown())
    head.close_with(counted.get_side_output(AGAIN))
    assert collect(counted) == ["done"] * 3


@pytest.mark.soak
def test_a_worker_is_killed_in_the_loop(tmp_path: Path) -> None:
    """What was on its way round would be lost, or taken twice."""
    env = environment(RuntimeExecutionMode.STREAMING, parallelism=2)
    env.enable_checkpointing(100)
    assert sorted(collect(collatz(env, str(tmp_path / "killed")))) == EXPECTED
    assert (tmp_path / "killed").exists()


def test_a_loop_is_stopped_and_drained(tmp_path: Path) -> None:
    """What goes round when the job stops would be lost, come twice, or keep the job from its end."""

    def written() -> list[int]:
        files = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and not path.name.startswith(".")]
        return sorted(int(line) for path in files for line in path.read_text().splitlines())

    def started(savepoint: str) -> Any:
        settings = {"execution.checkpointing.interval": "200 ms"}
        settings |= {"execution.savepoint.path": savepoint} if savepoint else {}
        env = environment(STREAMING, 1, settings)
        source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(500))
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        head = numbers.map(lambda number: (number, 4)).uid("turns").iterate()
        turned = head.map(lambda pair: (pair[0], pair[1] - 1)).uid("turn")
        head.close_with(turned.filter(lambda pair: pair[1] > 0).uid("again"))
        done = turned.filter(lambda pair: pair[1] <= 0).uid("done")
        done.map(lambda pair: str(pair[0])).uid("text").sink_to(lines_to(tmp_path / "out")).uid("out")
        return env.execute_async("turns")

    savepoint = ""
    for drain in (False, True):
        before = len(written())
        job = started(savepoint)
        wait_until(lambda before=before: len(written()) > before, "nothing is written")
        savepoint = job.stop_with_savepoint(drain, str(tmp_path / "savepoints")).result()
        job.get_job_execution_result().result()
    assert written() == [*range(len(written()))]
