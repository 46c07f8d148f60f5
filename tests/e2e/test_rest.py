"""REST of a job that `penstock run` has started."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.rest_job import RestJob

pytestmark = pytest.mark.e2e


def test_a_job_is_seen_and_stopped_over_rest(tmp_path: Path) -> None:
    """Nobody could watch or stop a job from a program of his own, or from Flink's."""
    job = RestJob(tmp_path)
    try:
        job.until_it_runs()
        assert job.token_file.stat().st_mode & 0o777 == 0o600
        (shown,) = job.get("/jobs/overview")["jobs"]
        assert (shown["jid"], shown["name"], shown["state"]) == (job.job_id, "highest numbers", "RUNNING")
        assert "mine_seen" in job.text("/metrics")
        assert "highest numbers" in job.text("/jobmanager/log")
        assert job.get("/taskmanagers/level-0-slot-0/logs")["logs"][0]["name"] == "level-0-slot-0.log"
        trigger = job.send(f"{job.path}/stop", "POST", {"targetDirectory": str(tmp_path / "saved")})["request-id"]
        # The process ends only when its client has been told where the savepoint is.
        while (outcome := job.get(f"{job.path}/savepoints/{trigger}"))["status"]["id"] == "IN_PROGRESS":
            pass
        assert (Path(outcome["operation"]["location"]) / "_metadata").is_file()
        assert job.process.wait(120) == 0, job.log.read_text()
        assert not job.token_file.exists()
    finally:
        job.process.kill()
        job.process.wait()
