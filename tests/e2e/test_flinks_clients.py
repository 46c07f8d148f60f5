"""Programs of Flink's own against REST: its command, the classes that read answers, its web pages.

They run where FLINK_HOME names a distribution of Flink 2.3 with bin/flink and lib/flink-dist-*.jar: 330 MB, too much to
be fetched for each run of the tests.
"""

from __future__ import annotations

import os
import subprocess
import textwrap
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from tests.browser import CHROMIUM, Browser
from tests.e2e.flinks_pages import FlinksPages
from tests.e2e.rest_job import JOB, RestJob
from tests.e2e.test_cluster import Cluster, until
from tests.unit.engine.jobmaster.played_job import plan
from tests.unit.service.rest.served import PlayedJob, Served, report

from penstock.engine.runtime.task.events import SampledStack, StacksSampled

FLINK_HOME = Path(os.environ.get("FLINK_HOME", "/nonexistent"))
JARS = sorted(FLINK_HOME.glob("lib/flink-dist-*.jar"))
_SECONDS = 120

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(not JARS, reason="FLINK_HOME names no distribution of Flink: there is no lib/flink-dist-*.jar"),
]

_MESSAGES = "org.apache.flink.runtime.rest.messages."
_MONITOR = "org.apache.flink.runtime.messages.webmonitor."
_OVERVIEW = "org.apache.flink.runtime.rest.handler.legacy.messages.ClusterOverviewWithVersion"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestJob]:
    """It runs."""
    one = RestJob(tmp_path_factory.mktemp("job"))
    yield one.until_it_runs()
    one.process.kill()
    one.process.wait()


def read_by_flink(job: RestJob) -> dict[str, str]:
    """By path: the class that reads its answer."""
    vertex = f"{job.path}/vertices/{job.get(job.path)['vertices'][0]['id']}"
    details = f"{job.path}/checkpoints/details/{job.get(f'{job.path}/checkpoints')['latest']['completed']['id']}"
    classes = {
        "/config": "DashboardConfiguration",
        "/taskmanagers": "taskmanager.TaskManagersInfo",
        "/taskmanagers/level-0-slot-0": "taskmanager.TaskManagerDetailsInfo",
        "/taskmanagers/level-0-slot-0/logs": "LogListInfo",
        "/taskmanagers/level-0-slot-0/thread-dump": "ThreadDumpInfo",
        "/jobmanager/config": "ConfigurationInfo",
        "/jobmanager/environment": "EnvironmentInfo",
        "/jobmanager/thread-dump": "ThreadDumpInfo",
        "/jobmanager/logs": "LogListInfo",
        job.path: "job.JobDetailsInfo",
        f"{job.path}/plan": "JobPlanInfo",
        f"{job.path}/config": "JobConfigInfo",
        f"{job.path}/exceptions": "JobExceptionsInfoWithHistory",
        f"{job.path}/checkpoints": "checkpoints.CheckpointingStatistics",
        f"{job.path}/checkpoints/config": "checkpoints.CheckpointConfigInfo",
        details: "checkpoints.CheckpointStatistics",
        f"{details}/subtasks/{vertex.rpartition('/')[2]}": "checkpoints.TaskCheckpointStatisticsWithSubtaskDetails",
        f"{job.path}/metrics": "job.metrics.MetricCollectionResponseBody",
        vertex: "JobVertexDetailsInfo",
        f"{vertex}/subtasktimes": "SubtasksTimesInfo",
        f"{vertex}/taskmanagers": "JobVertexTaskManagersInfo",
        f"{vertex}/backpressure": "JobVertexBackPressureInfo",
        f"{vertex}/subtasks/0": "job.SubtaskExecutionAttemptDetailsInfo",
        f"{vertex}/accumulators": "JobVertexAccumulatorsInfo",
        f"{vertex}/watermarks": "job.metrics.MetricCollectionResponseBody",
        f"{vertex}/metrics?get=0.numRecordsOut": "job.metrics.MetricCollectionResponseBody",
        f"{vertex}/subtasks/metrics?get=numRecordsOut": "job.metrics.AggregatedMetricsResponseBody",
    }
    return {path: _MESSAGES + name for path, name in classes.items()} | {
        "/overview": _OVERVIEW,
        "/jobs": f"{_MONITOR}JobIdsWithStatusOverview",
        "/jobs/overview": f"{_MONITOR}MultipleJobsDetails",
        f"{job.path}/status": f"{_MONITOR}JobStatusInfo",
        "/applications/overview": f"{_MONITOR}MultipleApplicationsDetails",
        f"/applications/{job.job_id}": f"{_MONITOR}ApplicationDetailsInfo",
    }


def test_flinks_own_classes_read_all_answers(job: RestJob) -> None:
    """A client of Flink's would fail at a field that is missing, misspelt or of another type."""
    classes = read_by_flink(job)
    lines = [f"{path}\t{name}\t{job.text(path)}" for path, name in classes.items()]
    program = Path(__file__).parent / "flink" / "Decode.java"
    command = ["java", "-cp", f"{FLINK_HOME}/lib/*", str(program)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=_SECONDS, check=True)
    assert done.stdout.splitlines() == [f"ok {path}" for path in classes]


def flink(job: Any, *arguments: str) -> str:
    """What Flink's command says. `job`: with the url and the token of an endpoint."""
    action, *rest = arguments
    command = [str(FLINK_HOME / "bin" / "flink"), action, "-m", job.url.removeprefix("http://"), *rest]
    headers = {"FLINK_REST_CLIENT_HEADERS": f"Authorization:Bearer {job.token}"}
    done = subprocess.run(
        command, env=os.environ | headers, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    return done.stdout + done.stderr


def test_flinks_command_lists_saves_and_stops_a_job(job: RestJob, tmp_path: Path) -> None:
    """Scripts that operate Flink's jobs would have to be written anew."""
    assert f"{job.job_id} : highest numbers (RUNNING)" in flink(job, "list")
    assert f"Path: {tmp_path}/savepoint-" in flink(job, "savepoint", job.job_id, str(tmp_path))
    refused = flink(job, "savepoint", job.job_id, "/proc/nowhere")
    assert "penstock." in refused and "/proc/nowhere" in refused, refused
    assert "not found" in flink(job, "cancel", "0" * 32)
    assert f"Path: {tmp_path}/savepoint-" in flink(job, "stop", "-p", str(tmp_path), job.job_id)
    assert job.process.wait(_SECONDS) == 0, job.log.read_text()


def test_flinks_command_cancels_a_job(tmp_path: Path) -> None:
    """A job in a wrong state could not be ended by the tools that are at hand."""
    job = RestJob(tmp_path).until_it_runs()
    try:
        assert "Cancelled job" in flink(job, "cancel", job.job_id)
        assert job.process.wait(_SECONDS) == 1 and "was canceled" in job.log.read_text()
    finally:
        job.process.kill()


PAGES = {
    "overview": ["Total Task Slots2", "Running Jobs"],
    "job/running": ["Running Jobs", "RUNNING"],
    "job/completed": ["Completed Jobs"],
    "job/running/id/overview": ["Collection Source", "Parallelism: 1"],
    "job/running/id/overview/{vertex}/detail": ["Reduce -> Print to Std. Out"],
    "job/running/id/overview/{vertex}/subtasks": ["level-1-slot-0"],
    "job/running/id/overview/{vertex}/taskmanagers": ["level-1-slot-0"],
    "job/running/id/overview/{vertex}/watermarks": ["5000"],
    "job/running/id/overview/{vertex}/backpressure": ["Back Pressure Status", "LOW"],
    "job/running/id/overview/{vertex}/metrics": ["Metrics"],
    "job/running/id/overview/{vertex}/flamegraph": ["FlameGraph", "where_time_is_spent:7"],
    "job/running/id/timeline": ["TimeLine"],
    "job/running/id/exceptions": ["a first failure"],
    "job/running/id/checkpoints": ["Triggered: 3", "Completed: 2", "In Progress: 1", "Path: /checkpoints/chk-2"],
    "job/running/id/configuration": ["Job parallelism"],
    "task-manager": ["level-0-slot-0", "level-1-slot-0"],
    "task-manager/level-0-slot-0/logs": ["a worker says"],
    "task-manager/level-0-slot-0/thread-dump": ["MainThread"],
    "job-manager/config": ["execution.checkpointing.interval"],
    "job-manager/logs": ["the driver says"],
    "job-manager/thread-dump": ["MainThread"],
}
"""What each page shows, which is what the job of the test has done."""


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_flinks_pages_show_our_figures_without_an_error(tmp_path: Path) -> None:
    """A page would stay empty, or show an error, for a figure that we do not have or name otherwise."""
    with zipfile.ZipFile(JARS[0]) as jar:
        jar.extractall(tmp_path, [name for name in jar.namelist() if name.startswith("web/")])
    pages = [Mount("/", StaticFiles(directory=tmp_path / "web", html=True))]
    settings = {"execution.checkpointing.interval": "5 s", "rest.flamegraph.enabled": "true"}
    served = Served(tmp_path, PlayedJob(plan()), settings, pages=pages)
    (served.logs / "driver.log").write_text("the driver says\n")
    (served.logs / "level-0-slot-0.log").write_text("a worker says\n")
    played = served.job.played
    played.runs().fails(RuntimeError("a first failure"))
    played.restarts().runs()
    played.takes_checkpoint()
    played.takes_checkpoint()
    played.begins_checkpoint()
    played.waits(1_000)
    for seconds in (1, 2, 3):
        served.job.metrics.update([report(v.id, 0, seconds, seconds * 100) for v in played.graph.vertices])
        served.entry.meter.sample(seconds)
    assert served.get(f"{served.vertex(1)}/flamegraph")["endTimestamp"] == -3
    stack = SampledStack(["run:1", "where_time_is_spent:7"], True, 3)
    served.job.samplings[0][1].set_result([StacksSampled(1, 0, 1, [stack])])
    vertex = served.vertex(1).rpartition("/")[2]
    browser = Browser()
    try:
        browser.log_in(served.endpoint.address.url, served.endpoint.token)
        browser.wait_for("Running Jobs")
        for page, shown in PAGES.items():
            browser.open(f"{served.endpoint.address.url}/#/{page.format(vertex=vertex)}")
            browser.wait_for(*shown)
            # Browsers ask for icons and manifests without cookies.
            assert [failure for failure in browser.failures if "favicon" not in failure] == [], page
    finally:
        browser.close()
        served.endpoint.close()


PAGES_OF_CLUSTER = [
    "overview", "job/running", "job/completed", "task-manager", "job-manager/config", "job-manager/metrics",
    "job-manager/logs", "job-manager/stdout", "job-manager/thread-dump",
]  # fmt: skip
PAGES_OF_JOB = [
    "overview", "overview/{vertex}/detail", "overview/{vertex}/subtasks", "overview/{vertex}/taskmanagers",
    "overview/{vertex}/watermarks", "overview/{vertex}/backpressure", "overview/{vertex}/metrics",
    "overview/{vertex}/flamegraph", "timeline", "exceptions", "checkpoints", "configuration",
]  # fmt: skip


@pytest.mark.own_jvm
def test_flinks_command_and_pages_with_a_cluster(tmp_path: Path) -> None:
    """What works with a job's own endpoint would fail with that of a cluster, or for jobs that have ended."""
    cluster = Cluster(tmp_path)
    browser = pages = None
    try:
        (tmp_path / "job.py").write_text(textwrap.dedent(JOB))
        stopped, runs = (cluster.submit("-D", "execution.checkpointing.interval=500ms", "job.py") for _ in range(2))
        for id in (stopped, runs):
            until(lambda id=id: cluster.client.get(f"/jobs/{id}")["state"] == "RUNNING")
        at = SimpleNamespace(url=cluster.rest.url, token=cluster.rest.token())
        assert f"{runs} : highest numbers (RUNNING)" in flink(at, "list")
        assert f"Path: {tmp_path}/savepoint-" in flink(at, "savepoint", runs, str(tmp_path))
        assert f"Path: {tmp_path}/savepoint-" in flink(at, "stop", "-p", str(tmp_path), stopped)
        until(lambda: cluster.job(stopped)["phase"] == "ENDED")
        assert f"{stopped} : highest numbers (FINISHED)" in flink(at, "list", "-a")
        if CHROMIUM is None:
            return
        pages = FlinksPages(JARS[0], tmp_path, int(at.url.rpartition(":")[2]), at.token)
        browser = Browser()
        paths = list(PAGES_OF_CLUSTER)
        for kind, id in (("running", runs), ("completed", stopped)):
            vertex = cluster.client.get(f"/jobs/{id}")["vertices"][-1]["id"]
            paths += [f"job/{kind}/{id}/{page.format(vertex=vertex)}" for page in PAGES_OF_JOB]
        for path in paths:
            browser.open(f"{pages.url}/#/{path}")
            # What it shows comes with its first answers.
            time.sleep(2)
            assert [failure for failure in browser.failures if "favicon" not in failure] == [], path
        browser.open(f"{pages.url}/#/task-manager")
        browser.wait_for(f"{runs[:8]}-level-0-slot-0")
        assert "Cancelled job" in flink(at, "cancel", runs)
    finally:
        if browser is not None:
            browser.close()
        if pages is not None:
            pages.close()
        cluster.command("cluster", "stop", "--cancel-jobs", "--dir", tmp_path)
