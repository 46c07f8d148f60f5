"""Cached streams: computed once, and read by later jobs."""

from __future__ import annotations

from random import Random

import pytest

from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.common.errors import ProgramError, UserFunctionError
from penstock.common.job_client import JobClient
from penstock.connectors.base.cached_records import CachedRecordsSource
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.hosts.simulator import Circumstances, Trace
from penstock.hosts.simulator.batched import BatchedSimulation
from penstock.service.client.executor import PipelineExecutor, Submission
from penstock.service.client.plan_executor import PlanExecutor
from penstock.testing.conformance.source import check_source


class Simulated(PipelineExecutor):
    """Runs jobs in the simulator, in batched mode, and delivers their results at their end."""

    def __init__(self) -> None:
        self.sources: list[list[str]] = []

    def execute(self, submission: Submission) -> JobClient:
        self.sources.append([vertex.nodes[0].name for vertex in submission.graph.sources])
        simulation = BatchedSimulation(submission.graph, Random(1), Circumstances(), Trace(None))
        try:
            simulation.run()
        except UserFunctionError as error:
            for sink in submission.result_sinks.values():
                sink.failed(error)
        else:
            for (id, subtask), values in simulation.outside.results.items():
                submission.result_sinks[id].accept(subtask, values)
            for sink in submission.result_sinks.values():
                sink.succeeded()
        return PlanExecutor().execute(Submission(submission.graph, {}, Configuration(), None))


@pytest.fixture
def executor() -> Simulated:
    return Simulated()


@pytest.fixture
def env(executor: Simulated) -> StreamExecutionEnvironment:
    environment = StreamExecutionEnvironment(executor=executor)
    environment.set_runtime_mode(RuntimeExecutionMode.BATCH)
    environment.set_parallelism(2)
    return environment


def with_time(value, ctx):
    yield value, ctx.timestamp()


def numbers(env, calls=lambda value: value):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value * 10)
    source = env.from_collection(range(20), Types.LONG()).assign_timestamps_and_watermarks(strategy)
    return source.rebalance().map(calls, Types.LONG())


def test_the_second_job_reads_what_the_first_has_kept(env, executor) -> None:
    """An expensive computation would run again in each of a notebook's jobs."""
    cached = numbers(env).cache()
    first = sorted(cached.process(with_time).execute_and_collect())
    second = sorted(cached.process(with_time).execute_and_collect())
    assert first == second == [(value, value * 10) for value in range(20)]
    assert executor.sources == [["Collection Source"], ["Cached Source"]]
    assert cached.get_type() == Types.LONG()


def test_a_job_with_other_sinks_fills_the_cache(env, executor) -> None:
    """Only jobs that do nothing else would leave something for the next."""
    cached = numbers(env).cache()
    summed = cached.key_by(lambda value: value % 2).sum()
    assert sorted(summed.execute_and_collect()) == [90, 100]
    assert sorted(cached.map(lambda value: value + 1).execute_and_collect()) == list(range(1, 21))
    assert executor.sources[1] == ["Cached Source"]


def test_invalidated_it_is_computed_again(env, executor) -> None:
    """Records would stay in memory for ever, and a stream whose source has changed would stay as it was."""
    cached = numbers(env).cache()
    for _ in range(2):
        assert sorted(cached.execute_and_collect()) == list(range(20))
    cached.invalidate()
    for _ in range(2):
        assert sorted(cached.execute_and_collect()) == list(range(20))
    assert [name for (name,) in executor.sources] == ["Collection Source", "Cached Source"] * 2


def test_a_job_that_fails_keeps_nothing(env, executor) -> None:
    """The next job would read a part of the records, and take it for all of them."""

    def fails(value):
        raise ValueError(value)

    cached = numbers(env).cache()
    with pytest.raises(UserFunctionError):
        list(cached.map(fails).execute_and_collect())
    assert sorted(cached.execute_and_collect()) == list(range(20))
    assert executor.sources == [["Collection Source"], ["Collection Source"]]


def test_only_batch_fills_a_cache(env) -> None:
    """The records of a stream without an end would fill the memory of the program."""
    cached = numbers(env).cache()
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    with pytest.raises(ProgramError, match="only in BATCH mode"):
        cached.execute_and_collect()


def test_a_cache_has_no_settings(env) -> None:
    """A setting would have no effect, without a word."""
    cached = numbers(env).cache()
    for change in (
        lambda: cached.set_parallelism(2),
        lambda: cached.name("a"),
        lambda: cached.uid("a"),
        cached.disable_chaining,
    ):
        with pytest.raises(ValueError, match="a cached stream does not have one"):
            change()
    with pytest.raises(ValueError, match="a keyed stream can't be cached"):
        cached.key_by(lambda value: value).cache()


@pytest.mark.parametrize(
    "parts",
    [
        [[("a", 1), ("b", 2)], [], [("c", 3), ("d", None), ("e", None), ("f", 4)]],
        [[(number, None) for number in range(11)]],
        [],
    ],
)
def test_kept_records_can_be_resumed_anywhere(parts) -> None:
    """A restart of a job in STREAMING mode would lose or repeat records of a cache."""
    check_source(lambda: CachedRecordsSource(parts))
