"""REST of a job that `penstock run` has started."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.browser import CHROMIUM, Browser
from tests.e2e.dashboard_process import DashboardProcess
from tests.e2e.rest_job import RestJob
from tests.unit.service.rest.test_alert_rules import metrics_in_rules

pytestmark = pytest.mark.e2e


def test_a_job_is_seen_and_stopped_over_rest(tmp_path: Path) -> None:
    """Nobody could watch or stop a job from a program of his own, or from Flink's."""
    job = RestJob(tmp_path, *("-D", "rest.flamegraph.enabled=true", "-D", "rest.flamegraph.delay-between-samples=10ms"))
    try:
        job.until_it_runs()
        assert job.token_file.stat().st_mode & 0o777 == 0o600
        (shown,) = job.get("/jobs/overview")["jobs"]
        assert (shown["jid"], shown["name"], shown["state"]) == (job.job_id, "highest numbers", "RUNNING")
        metrics = job.text("/metrics")
        assert "mine_seen" in metrics
        # Only Kafka's source has pendingRecords (tests/connectors/test_kafka.py), and this job has no watermarks.
        absent = {name for name in metrics_in_rules() if f"\n{name}{{" not in metrics}
        assert absent == {f"flink_taskmanager_job_task_operator_{name}" for name in ("pendingRecords", "watermarkLag")}
        assert "highest numbers" in job.text("/jobmanager/log")
        assert job.get("/taskmanagers/level-0-slot-0/logs")["logs"][0]["name"] == "level-0-slot-0.log"
        if CHROMIUM is not None and find_spec("nicegui") is not None:
            _is_shown_by_the_dashboard(job, tmp_path)
        _shows_flame_graphs(job)
        threads = job.get("/taskmanagers/level-1-slot-0/thread-dump")["threadInfos"]
        text = "".join(thread["stringifiedThreadInfo"] for thread in threads)
        assert "pipelined_stage.WorkerHost.run:" in text and len(threads) > 1, text
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


def _shows_flame_graphs(job: RestJob) -> None:
    source, sink = (f"{job.path}/vertices/{vertex['id']}/flamegraph" for vertex in job.get(job.path)["vertices"])
    while (shown := job.get(source))["endTimestamp"] == -3:
        pass
    frames, counts = _frames(shown["data"]), [node["value"] for node in shown["data"]["children"]]
    assert any(name.startswith("penstock.hosts.spark.worker.pipelined_stage.WorkerHost.run:") for name in frames), (
        frames
    )
    assert shown["data"]["value"] == sum(counts) and 0 < shown["data"]["value"] <= 100
    assert job.get(sink + "?subtaskindex=0&type=OFF_CPU")["endTimestamp"] != -2


def _frames(node: dict[str, Any]) -> list[str]:
    return [node["name"], *(name for child in node["children"] for name in _frames(child))]


def _is_shown_by_the_dashboard(job: RestJob, directory: Path) -> None:
    dashboard, browser = DashboardProcess(directory, job.url.removeprefix("http://"), job.token), Browser()
    try:
        browser.log_in(dashboard.url, dashboard.token)
        browser.wait_for("highest numbers", job.job_id[:8])
        browser.open(f"{dashboard.url}/job/{job.job_id}?tab=checkpoints")
        written = job.get(job.path)["vertices"][0]["metrics"]["write-records"]
        browser.wait_for(*(vertex["name"] for vertex in job.get(job.path)["vertices"]), "start delay", "chk-")
        browser.click("subtasks")
        browser.wait_for("level-0-slot-0")
        shown = re.search(r"\b([\d,]+)\s+0\s+level-0-slot-0", browser.text())
        assert shown is not None and int(shown[1].replace(",", "")) >= written, "it has only grown since"
        browser.click("state")
        states = job.get(f"{job.path}/state")["states"]
        browser.wait_for(*(f"{one['state']}: {one['type']}" for one in states), *([] if states else ["no keyed state"]))
        browser.click("logs")
        browser.wait_for("highest numbers", "starts")
        assert browser.failures == []
    finally:
        browser.close()
        dashboard.close()
