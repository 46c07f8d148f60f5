"""How all that Spark runs for a job is marked, so that it can be stopped when the job's own process is gone."""

from __future__ import annotations


def job_tag(job_id: str) -> str:
    """The tag of a job's jobs, in Spark's sense of the word."""
    return f"penstock-{job_id}"
