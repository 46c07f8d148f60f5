"""Runs jobs under the control of the program's own process, on the Spark that it reaches: one machine or a cluster."""

from __future__ import annotations

from penstock.client.executor import PipelineExecutor, Submission
from penstock.client.submission import submit
from penstock.common.job_client import JobClient


class LocalExecutor(PipelineExecutor):
    """The job master lives in this process, which is also Spark's driver. `execution.target: local`, the default."""

    def execute(self, submission: Submission) -> JobClient:
        return submit(submission)
