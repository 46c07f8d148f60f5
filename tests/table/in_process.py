"""Table environments whose jobs run in the simulator: in this process, with exchanges, without Spark."""

from __future__ import annotations

from random import Random

from penstock.common import Configuration
from penstock.common.job_client import JobClient
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.hosts.simulator import Circumstances, Simulation, Trace
from penstock.service.client.executor import PipelineExecutor, Submission
from penstock.service.client.plan_executor import PlanExecutor


class InProcess(PipelineExecutor):
    """Runs each job to its end, and delivers its results there."""

    def __init__(self, seed: int = 1, circumstances: Circumstances | None = None) -> None:
        self.seed = seed
        self.circumstances = circumstances or Circumstances()
        self.error: BaseException | None = None
        """The error of the last job."""
        self.restarts = 0
        """How often it was restored, or began again, after a failure."""

    def execute(self, submission: Submission) -> JobClient:
        """Run a job."""
        simulation = self.simulation(submission.graph)
        simulation.run()
        self.error = simulation.error
        self.restarts = simulation.went_back
        for (id, subtask), values in simulation.outside.results.items():
            submission.result_sinks[id].accept(subtask, values)
        for sink in submission.result_sinks.values():
            if self.error is None:
                sink.succeeded()
            else:
                sink.failed(self.error)
        return PlanExecutor().execute(Submission(submission.graph, {}, Configuration(), None))

    def simulation(self, graph: JobGraph) -> Simulation:
        """Return the simulation of a job."""
        return Simulation(graph, Random(self.seed), self.circumstances, Trace(None))


def environment(parallelism: int = 2, seed: int = 1) -> StreamExecutionEnvironment:
    """Return an environment whose jobs run in this process."""
    env = StreamExecutionEnvironment(executor=InProcess(seed))
    env.set_parallelism(parallelism)
    return env
