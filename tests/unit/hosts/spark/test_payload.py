"""Payloads: a level as it is sent to a worker, and what must be the same at both ends."""

from __future__ import annotations

import os
import sys

import cloudpickle
import msgspec
import pytest

import penstock
from penstock.common import WatermarkStrategy
from penstock.common.configuration.choices import SparkTransport
from penstock.common.errors import PenstockError
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph
from penstock.engine.runtime.execution_mode import STREAMING
from penstock.hosts.spark.job_files import JobFiles
from penstock.hosts.spark.payload import pack, unpack
from penstock.hosts.spark.worker.pipelined_stage import pipelined_stage


@pytest.fixture
def payloads():
    env = StreamExecutionEnvironment()
    stream = env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), "numbers")
    stream.key_by(lambda value: value).map(str).name("m").print()
    graph = JobGraph("job", StreamGraph(env._sinks, GraphSettings(parallelism=2)), STREAMING)
    return pack(graph.levels("job-1"), None, 250)


def test_a_payload_brings_its_level(payloads) -> None:
    """Workers would not know what to run."""
    arrived = [unpack(cloudpickle.loads(cloudpickle.dumps(payload))) for payload in payloads]
    assert [level.level for level in arrived] == [0, 1]
    assert arrived[1].vertices[0].nodes[0].operator.name == "m"
    assert payloads[0].heartbeat_ms == 250


@pytest.mark.parametrize("change", [{"version": "0.0.0"}, {"python": "3.9"}])
def test_another_version_on_the_executor_is_an_error(payloads, change) -> None:
    """The job would fail with an AttributeError of an internal class, or not fail and compute something else."""
    with pytest.raises(PenstockError, match="install the same version on both") as caught:
        unpack(msgspec.structs.replace(payloads[0], **change))
    assert penstock.__version__ in str(caught.value)


def test_modules_next_to_the_script_are_found(payloads, monkeypatch, tmp_path) -> None:
    """`import my_functions` would fail in workers."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    unpack(msgspec.structs.replace(payloads[0], files=JobFiles(path=[str(tmp_path), sys.path[-1]])))
    assert sys.path.count(str(tmp_path)) == 1
    assert len(sys.path) == len(set(sys.path)) or sys.path[-1] == str(tmp_path)


@pytest.mark.parametrize("transport", SparkTransport)
def test_a_payload_brings_the_transport(payloads, transport) -> None:
    """The setting would end on the driver, and workers would use the pipes all the same."""
    payload = msgspec.structs.replace(payloads[0], transport=transport)
    assert cloudpickle.loads(cloudpickle.dumps(payload)).transport is transport


def test_a_stage_claims_the_pipes_only_for_their_transport(payloads, monkeypatch) -> None:
    """With `iterators` two threads would read the input of a worker, each a part."""
    for transport, reads in ((SparkTransport.ITERATORS, "1"), (SparkTransport.PIPES, "0")):
        monkeypatch.setenv("SPARK_PIPELINED_UDF", "1")
        stage = pipelined_stage(msgspec.structs.replace(payloads[0], transport=transport))
        assert os.environ["SPARK_PIPELINED_UDF"] == "1"
        cloudpickle.loads(cloudpickle.dumps(stage))
        assert os.environ["SPARK_PIPELINED_UDF"] == reads
