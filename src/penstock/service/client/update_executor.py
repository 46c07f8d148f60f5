"""Send a program's functions to a running job: `penstock update`."""

from __future__ import annotations

from penstock.common.errors import JobError
from penstock.common.job_client import JobClient
from penstock.engine.plan.new_program import pack_program
from penstock.hosts.spark.payload import this_python
from penstock.service.client.executor import Submission
from penstock.service.client.plan_executor import PlanExecutor


class UpdateExecutor(PlanExecutor):
    """Keep each job that a program executes, packed. For the program, each job ends at once, without results."""

    def __init__(self) -> None:
        super().__init__()
        self._programs: dict[str, bytes] = {}

    def execute(self, submission: Submission) -> JobClient:
        # Pack now: later the classes of the script are gone.
        self._programs[submission.graph.name] = pack_program(submission.graph, this_python())
        return super().execute(submission)

    def program_for(self, job_name: str) -> bytes:
        """Return the packed program for a job of that name. Raises JobError if it is ambiguous."""
        if len(self._programs) == 1:
            return next(iter(self._programs.values()))
        if job_name not in self._programs:
            names = ", ".join(f"'{name}'" for name in self._programs) or "no job: it has to call env.execute()"
            raise JobError(f"the program executes {names}, and the job to be updated is '{job_name}'")
        return self._programs[job_name]
