"""What clients that wait for the end of a job are told: Flink's ask for it until it is there."""

from __future__ import annotations

from pathlib import Path

from tests.unit.engine.jobmaster.played_job import plan
from tests.unit.service.rest.served import PlayedJob, Served

from penstock.engine.jobmaster.events import CancelRequested
from penstock.engine.rpc.messages import Register


def test_a_job_that_runs_is_in_progress_and_one_that_was_cancelled_has_ended(served: Served) -> None:
    """`flink run` and scripts that wait for a job would read that there is none."""
    assert served.get("/jobs/id/execution-result") == {"status": {"id": "IN_PROGRESS"}}
    played = served.job.played
    for level, index in ((0, 0), (1, 0), (1, 1)):
        played.report(level, Register(), index=index)
    played.handle(CancelRequested())
    assert served.get("/jobs/id/execution-result") == {"status": {"id": "IN_PROGRESS"}}, "its tasks are closing"
    played.waits(1_000_000)
    assert served.get("/jobs/id")["state"] == "CANCELED"
    assert served.get("/jobs/id/execution-result") == {
        "status": {"id": "COMPLETED"},
        "job-execution-result": {
            "id": "id", "application-status": "CANCELED", "accumulator-results": {}, "net-runtime": 1_000_000,
        },
    }  # fmt: skip
    served.get(f"/jobs/{'0' * 32}/execution-result", 404)


def test_a_job_that_has_failed_says_by_what(tmp_path: Path) -> None:
    """A client that waits would report a failure without its cause."""
    served = Served(tmp_path, PlayedJob(plan(), attempts=0))
    served.job.played.runs().fails(RuntimeError("the disk is full"))
    served.job.played.waits(1_000_000)
    result = served.get("/jobs/id/execution-result")["job-execution-result"]
    assert result["application-status"] == "FAILED"
    assert "the disk is full" in result["failure-cause"]["stack-trace"]
    assert result["failure-cause"].keys() == {"class", "stack-trace", "serialized-throwable"}
    served.endpoint.close()
