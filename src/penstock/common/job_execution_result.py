"""The result of a finished job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.common.job_id import JobID


class JobExecutionResult:
    """Run time and accumulators of a finished job. `net_runtime` is in milliseconds."""

    def __init__(self, job_id: JobID, net_runtime: int, accumulators: Mapping[str, Any] | None = None) -> None:
        self._job_id = job_id
        self._net_runtime = net_runtime
        self._accumulators = dict(accumulators or {})

    def get_job_id(self) -> JobID:
        """Return the job's id."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Return the milliseconds from the start to the end of the tasks."""
        return self._net_runtime

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Return the value of an accumulator, or None if the name is unknown."""
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Return all accumulators by name."""
        return dict(self._accumulators)

    def __str__(self) -> str:
        return f"Job {self._job_id} ran {self._net_runtime} ms"

    def __repr__(self) -> str:
        # Notebooks show it below the cell.
        return f"<{self}>"
