"""How many worker processes host a job's slots."""

from __future__ import annotations

import pytest

from penstock.common import Configuration, WatermarkStrategy
from penstock.common.errors import NotEnoughSlotsError
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.hosts.spark.driver.worker_counts import needed_descriptors, worker_counts
from penstock.iteration import iterate
from penstock.service.client.plan_executor import PlanExecutor

PLENTY = 1 << 20


def graph(parallelism: int, exchanges: int = 1) -> JobGraph:
    planned = PlanExecutor()
    env = StreamExecutionEnvironment(executor=planned).set_parallelism(parallelism)
    stream = env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), "numbers")
    for _ in range(exchanges):
        stream = stream.rebalance().map(abs)
    stream.print()
    env.execute("numbers")
    return planned.graphs[0]


def counts(job: JobGraph, master: str = "local[64]", limit: int = PLENTY, slots: str = "") -> tuple[int, ...]:
    settings = {"taskmanager.numberOfTaskSlots": slots} if slots else {}
    return worker_counts(job, Configuration.from_dict(settings), master, limit)


def test_each_slot_has_a_process() -> None:
    """A function that blocks would hold back another subtask, in a job of the usual size."""
    assert counts(graph(16)) == (16, 16)


def test_many_slots_of_one_machine_share_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM's descriptors and threads would grow with the square of the parallelism, until the job hangs."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert counts(graph(64)) == (16, 16)
    monkeypatch.setattr("os.cpu_count", lambda: 48)
    assert counts(graph(64)) == (48, 48)


def test_slots_of_an_iteration_share_a_process_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each superstep all wait for each other: more processes than cores exchange more messages, and gain nothing."""
    planned = PlanExecutor()
    env = StreamExecutionEnvironment(executor=planned).set_parallelism(8)
    iteration = iterate(env.from_collection([1, 2]).rebalance().map(abs), 3)
    iteration.close_with(iteration.map(abs).rebalance()).rebalance().map(abs).print()
    env.execute("iteration")
    job = planned.graphs[0]
    (level,) = job.superstep_levels
    assert job.widths[level] == 8
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert counts(job)[level] == 2
    assert {one for other, one in enumerate(counts(job)) if other != level} == {1, 8}, "others do not wait"
    assert counts(job, slots="1")[level] == 8
    assert counts(job, "spark://host:7077")[level] == 8
    monkeypatch.setattr("os.cpu_count", lambda: 48)
    assert counts(job)[level] == 8


def test_slots_of_a_cluster_share_processes_only_if_configured() -> None:
    """Executors on many machines each have their own descriptors, and cores that would be left idle."""
    assert counts(graph(64), "spark://host:7077") == (64, 64)
    assert counts(graph(64), "spark://host:7077", slots="4") == (16, 16)


def test_a_setting_says_how_many_slots_share_a_process() -> None:
    """A user with functions that wait, or with little memory, could not choose."""
    assert counts(graph(30), slots="4") == (8, 8)
    assert counts(graph(30), slots="1") == (30, 30)


def test_few_descriptors_make_few_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of many levels would run out of descriptors where a job of two does not."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    job = graph(16, exchanges=6)
    shared = counts(job, limit=4096)
    assert 1 < shared[0] < 16
    assert needed_descriptors(shared, job.regions) < 4096


def test_a_job_that_cannot_run_is_rejected_with_the_numbers() -> None:
    """The job would hang, or its error would blame a worker for the lack of memory."""
    with pytest.raises(NotEnoughSlotsError) as raised:
        counts(graph(64), limit=10_000, slots="1")
    text = str(raised.value)
    assert "about 22,160 file descriptors" in text and "may open 10,000" in text
    assert "64 + 64 worker processes" in text and "taskmanager.numberOfTaskSlots" in text
