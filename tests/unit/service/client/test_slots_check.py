"""Jobs that this machine can't host are refused before Spark is started, unless they are meant."""

from __future__ import annotations

import pytest

from penstock.common import Configuration, WatermarkStrategy
from penstock.common.errors import NotEnoughSlotsError
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.service.client.executor import Submission
from penstock.service.client.plan_executor import PlanExecutor
from penstock.service.client.slots_check import check_slots
from penstock.service.client.submission import submit


def graph(parallelism: int, mode: RuntimeExecutionMode = RuntimeExecutionMode.STREAMING) -> JobGraph:
    planned = PlanExecutor()
    env = StreamExecutionEnvironment(executor=planned).set_parallelism(parallelism).set_runtime_mode(mode)
    numbers = env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda number: number).map(str).print()
    env.execute("numbers")
    return planned.graphs[0]


def test_two_thousand_slots_on_two_cores_are_refused() -> None:
    """The machine would run out of memory before the first record."""
    with pytest.raises(NotEnoughSlotsError) as raised:
        check_slots(graph(1000), Configuration(), cores=2)
    text = str(raised.value)
    assert "'numbers' needs 2,000 slots at once (1000 + 1000)" in text
    assert "in 32 Python processes" in text
    assert "2 cores, where penstock starts up to 256 slots in 64 processes" in text
    assert "spark.master: local[2000]" in text


def test_processes_without_number_are_refused() -> None:
    """Each slot has a process of its own if that is asked for, and the machine would run out of memory."""
    with pytest.raises(NotEnoughSlotsError, match="in 66 Python processes"):
        check_slots(graph(33), Configuration.from_dict({"taskmanager.numberOfTaskSlots": "1"}), cores=2)
    check_slots(graph(64), Configuration(), cores=2)


def test_what_is_meant_is_not_refused() -> None:
    """A job on a cluster, or a test of many slots, could not be started."""
    check_slots(graph(32), Configuration(), cores=2)
    check_slots(graph(1000), Configuration(), cores=64)
    check_slots(graph(1000, RuntimeExecutionMode.BATCH), Configuration(), cores=2)
    check_slots(graph(1000), Configuration.from_dict({"spark.master": "local[2000]"}), cores=2)


def test_it_is_refused_before_spark_is_started() -> None:
    """The user would wait for a session that the job can't use."""
    with pytest.raises(NotEnoughSlotsError, match="Python processes of some 60 MB each"):
        submit(Submission(graph(30_000), {}, Configuration(), None))
