"""Run jobs under the control of the program's own process, on the Spark that it reaches: one machine or a cluster."""

from __future__ import annotations

import logging

from penstock.common.configuration import rest_options
from penstock.common.job_client import JobClient
from penstock.service.client.executor import PipelineExecutor, Submission
from penstock.service.client.settings_check import warn_of_temporary_checkpoints
from penstock.service.client.submission import submit

_log = logging.getLogger(__name__)


class LocalExecutor(PipelineExecutor):
    """Run the job master in this process, which is also Spark's driver. `execution.target: local`, the default."""

    def execute(self, submission: Submission) -> JobClient:
        if not submission.configuration.get(rest_options.ATTACHED):
            _log.warning(
                "%s: false (-d) has no effect: the job runs in this program and ends with it. To detach from a job, "
                "run it in a cluster: penstock run -m HOST:PORT -d",
                rest_options.ATTACHED.key,
            )
        if submission.graph.mode.takes_checkpoints:
            warn_of_temporary_checkpoints(submission.graph, submission.configuration)
        return submit(submission)
