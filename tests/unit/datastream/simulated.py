"""Programs whose jobs run in the simulator, in BATCH mode."""

from __future__ import annotations

from random import Random
from typing import Any

from penstock.common import Configuration
from penstock.common.errors import UserFunctionError
from penstock.common.job_client import JobClient
from penstock.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.hosts.simulator import Circumstances, Trace
from penstock.hosts.simulator.batched import BatchedSimulation
from penstock.service.client.executor import PipelineExecutor, Submission
from penstock.service.client.plan_executor import PlanExecutor


class Simulated(PipelineExecutor):
    """Runs jobs in the simulator, and delivers their results at their end."""

    def execute(self, submission: Submission) -> JobClient:
        """Run a job."""
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


def environment() -> StreamExecutionEnvironment:
    """Return an environment whose jobs run in the simulator."""
    env = StreamExecutionEnvironment(executor=Simulated())
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env


def collected(stream: DataStream[Any]) -> list[Any]:
    """Return the results of a job."""
    with stream.execute_and_collect() as results:
        return list(results)
