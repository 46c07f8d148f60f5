"""Structured iterations on Spark: supersteps over several slots, and a worker that is killed in one of them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.spark.jobs import collect, environment, no_worker_left

from penstock.api.source import Boundedness
from penstock.common.errors import ProgramError
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import FilterFunction, ProcessFunction, RuntimeExecutionMode
from penstock.iteration import IterationListener, SumAggregator, iterate, iterate_delta, superstep_windows

pytestmark = pytest.mark.spark

SUPERSTEPS = 60


class Step(ProcessFunction[Any, Any], IterationListener):
    """Adds one to each number, and compares the sum of the superstep before. May kill its worker in a superstep."""

    def __init__(self, folder: str = "") -> None:
        self.folder = folder

    def open(self, runtime_context: Any) -> None:
        self.context = runtime_context
        self.begins = True

    def process_element(self, value: Any, ctx: Any) -> Any:
        step = self.context.get_superstep_number()
        if self.begins and self.folder:
            with (Path(self.folder) / "begun").open("a") as file:
                file.write(f"{step}\n")
        self.begins = False
        assert value == (value[0], value[0] + step)
        self.context.get_iteration_aggregator("sum").aggregate(value[1])
        if step:
            assert self.context.get_previous_iteration_aggregate("sum") == sum(range(20)) + 20 * (step - 1)
        killed = Path(self.folder) / "killed"
        if self.folder and value[0] == 7 and step == 40 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield value[0], value[1] + 1

    def on_epoch_watermark_incremented(self, epoch_watermark: int, context: Any) -> Any:
        if self.folder:
            # Long enough for checkpoints in between.
            time.sleep(0.02)


def added(env: Any, folder: str = "") -> Any:
    numbers = env.from_collection([(number, number) for number in range(20)])
    iteration = iterate(numbers, SUPERSTEPS, aggregators={"sum": SumAggregator()})
    stepped = iteration.process(Step(folder)).key_by(lambda value: value[0]).map(lambda value: value)
    return iteration.close_with(stepped.rebalance())


EXPECTED = [(number, number + SUPERSTEPS) for number in range(20)]


def test_supersteps_over_several_slots() -> None:
    """A superstep would get records of another one, or aggregates of a part of the subtasks."""
    assert sorted(collect(added(environment(RuntimeExecutionMode.STREAMING, parallelism=2)))) == EXPECTED
    no_worker_left()


def test_a_worker_is_killed_in_a_superstep(tmp_path: Path) -> None:
    """The iteration would begin from superstep 0, or repeat supersteps that a checkpoint has."""
    env = environment(RuntimeExecutionMode.STREAMING, parallelism=2)
    env.enable_checkpointing(100)
    assert sorted(collect(added(env, str(tmp_path)))) == EXPECTED
    begun = [int(line) for line in (tmp_path / "begun").read_text().split()]
    assert (tmp_path / "killed").exists()
    assert begun.count(0) <= 2 and max(begun) > 0, f"restored at supersteps {begun}"


def test_a_group_in_each_superstep() -> None:
    """A window would have records of two supersteps, or only a part of those of one."""
    env = environment(RuntimeExecutionMode.STREAMING, parallelism=2)
    iteration = iterate(env.from_collection([(key, 1) for key in range(4)]), 6)
    doubled = iteration.flat_map(lambda value: [value, value])
    summed = doubled.key_by(lambda value: value[0]).window(superstep_windows()).reduce(lambda a, b: (a[0], a[1] + b[1]))
    assert sorted(collect(iteration.close_with(summed.rebalance()))) == [(key, 64) for key in range(4)]


class Reads(FilterFunction[Any]):
    """Reads a file that the client has registered."""

    def open(self, runtime_context: Any) -> None:
        self.words = Path(runtime_context.get_distributed_cache().get_file("words")).read_text().split()

    def filter(self, value: Any) -> bool:
        return value in self.words


def test_a_cached_file_replayed_data_and_a_deferred_delta(tmp_path: Path) -> None:
    """AggregatorsITCase.testDistributedCacheWithIterations of Flink, with data that is in each superstep."""
    (tmp_path / "words").write_text("one two three")
    env = environment(RuntimeExecutionMode.STREAMING, parallelism=2)
    env.register_cached_file(str(tmp_path / "words"), "words")
    initial = env.from_collection([("one", 0)])
    iteration = iterate_delta(initial, initial, 5, key=lambda pair: pair[0], deferred=True)
    words = iteration.workset.replay(env.from_collection(["one", "two", "four"]).filter(Reads()))
    counted = words.map(lambda word: (word, 1))
    delta = iteration.solution_set.co_group(
        counted, lambda word, entry, ones: (word, (entry or (word, 0))[1] + len(ones)), key=lambda pair: pair[0]
    )
    result = iteration.close_with(delta, iteration.workset)
    assert sorted(collect(result)) == [("one", 5), ("two", 5)]


def test_an_iteration_in_batch_mode() -> None:
    """It would wait for ever in a stage, or read and write what other modes do: final sums of keys, each once."""
    env = environment(RuntimeExecutionMode.BATCH, parallelism=2)
    pairs = env.from_collection([(number % 20, number // 20 + 1) for number in range(60)])
    summed = pairs.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))
    iteration = iterate(summed, SUPERSTEPS)
    stepped = iteration.map(lambda pair: (pair[0], pair[1] + 1)).key_by(lambda pair: pair[0]).map(lambda pair: pair)
    ended = iteration.close_with(stepped.rebalance())
    counted = ended.union(summed).key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))
    # The second iteration reads the result of the first one, and what is before it.
    second = iterate_delta(ended, counted, 9, key=lambda pair: pair[0])
    changed = second.solution_set.co_group(
        second.workset, lambda key, entry, found: (key, entry[1] + found[0][1]), key=lambda pair: pair[0]
    )
    result = second.close_with(changed, changed.filter(lambda pair: pair[1] < 1000))
    after_first = 6 + SUPERSTEPS
    value, workset = after_first, after_first + 6
    while True:
        value += workset
        workset = value
        if value >= 1000:
            break
    assert sorted(collect(result)) == [(key, value) for key in range(20)]
    no_worker_left()


def test_a_loop_without_supersteps_in_batch_mode_is_refused() -> None:
    """It would wait for ever: a stage ends before the next one begins."""
    env = environment(RuntimeExecutionMode.BATCH, parallelism=2)
    loop = env.from_collection([1]).iterate()
    with pytest.raises(ProgramError, match="BATCH"):
        collect(loop.close_with(loop.filter(lambda value: value > 1)))


class Endless(NumberSequenceSource):
    """Numbers, without a word on their end."""

    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED


def test_what_arrives_joins_a_running_iteration() -> None:
    """A superstep would wait for the end of the source, or a head that gets nothing would hold back the others."""
    env = environment(RuntimeExecutionMode.STREAMING, parallelism=2)
    env.enable_checkpointing(100)
    arrived = env.from_source(Endless(1, 10_000), WatermarkStrategy.no_watermarks(), "endless")
    iteration = iterate(arrived.map(lambda number: (number, 0)))
    stepped = iteration.map(lambda pair: (pair[0], pair[1] + 1)).key_by(lambda pair: pair[0]).map(lambda pair: pair)
    done = stepped.filter(lambda pair: pair[1] == 5)
    iteration.close_with(stepped.filter(lambda pair: pair[1] < 5).rebalance(), outputs=[done])
    assert sorted(collect(done)) == [(number, 5) for number in range(1, 10_001)]
    no_worker_left()
