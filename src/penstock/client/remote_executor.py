"""The place of an executor that submits jobs to a running penstock cluster."""

from __future__ import annotations

from penstock.client.executor import PipelineExecutor, Submission
from penstock.common.errors import ConfigurationError
from penstock.common.job_client import JobClient


class RemoteExecutor(PipelineExecutor):
    """Submits to a dispatcher: `execution.target: remote`. This version has no dispatcher, so every job is refused."""

    def execute(self, submission: Submission) -> JobClient:
        raise ConfigurationError(
            f"the job '{submission.graph.name}' was not started: execution.target is 'remote', but this version has no "
            "cluster of its own to submit jobs to. Use execution.target: local. To run the tasks on a Spark cluster, "
            "set spark.master, for example spark://host:7077"
        )
