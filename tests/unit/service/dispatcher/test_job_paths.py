"""Jobs of a cluster whose processes can't be asked, or not yet."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.unit.service.dispatcher.played_cluster import PlayedCluster

from penstock.common.errors import JobError
from penstock.common.job_status import JobStatus
from penstock.service.dispatcher.job_store import ARCHIVE


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PlayedCluster]:
    one = PlayedCluster(tmp_path)
    yield one
    one.close()


def test_a_job_that_waits_is_initializing_and_says_for_what(cluster: PlayedCluster) -> None:
    """Flink's clients and pages would show an error, and a user look for what is broken."""
    found = cluster.client.get("/jobs/dddddddd")
    assert (found["jid"], found["state"], found["vertices"], found["plan"]["nodes"]) == (
        "dddddddd", "INITIALIZING", [], [],
    )  # fmt: skip
    assert found["waiting"] == "waits for 1 slot: 1 of 8 are free"
    assert cluster.client.get("/jobs/dddddddd/status") == {"status": "INITIALIZING"}
    with pytest.raises(JobError, match="Job dddddddd does not serve requests: it is queued"):
        cluster.client.get("/jobs/dddddddd/checkpoints")


def test_a_job_whose_process_does_not_serve_it_yet_is_initializing(cluster: PlayedCluster) -> None:
    """A client that has just been told the id of its job would read that there is none."""
    job, other = cluster.jobs["aaaaaaaa1111"], cluster.jobs["bbbbbbbb2222"]
    assert cluster.client.get("/jobs/aaaaaaaa1111")["state"] == "CREATED"
    id = "0" * 32
    cluster.jobs[id] = dataclasses.replace(job, id=id, job_id=id, rest=other.rest)
    assert cluster.client.get(f"/jobs/{id}")["state"] == "INITIALIZING"
    with pytest.raises(JobError, match="not found"):
        cluster.client.get(f"/jobs/{id}/checkpoints")


def test_a_job_that_is_gone_or_has_ended_is_not_initializing(cluster: PlayedCluster) -> None:
    """A job whose process hangs, or of which nothing was kept, would seem to be about to begin."""
    for method, path in (
        ("GET", ""),
        ("GET", "/status"),
        ("GET", "/execution-result"),
        ("PATCH", ""),
        ("POST", "/stop"),
    ):
        status, answer = cluster.client.answer(method, f"/jobs/cccccccc{path}")
        assert status == 503 and b"Job cccccccc does not answer: " in answer, "Flink's clients ask again then"
    cluster.jobs["dddddddd"] = dataclasses.replace(cluster.jobs["dddddddd"], status=JobStatus.CANCELED)
    assert cluster.client.get("/jobs/dddddddd")["state"] == "CANCELED"
    with pytest.raises(JobError, match=r"unknown about job dddddddd, which has ended \(CANCELED\)"):
        cluster.client.get("/jobs/dddddddd/checkpoints")


@pytest.mark.parametrize("status", [None, JobStatus.CANCELED])
def test_a_job_without_a_process_has_no_plan_no_settings_and_no_figures(
    cluster: PlayedCluster, status: JobStatus | None
) -> None:
    """Flink's pages ask for each of these of any job, and would show an error for each."""
    cluster.jobs["dddddddd"] = dataclasses.replace(cluster.jobs["dddddddd"], status=status)
    assert cluster.client.get("/jobs/dddddddd/plan")["plan"]["nodes"] == []
    assert cluster.client.get("/jobs/dddddddd/config") == {"jid": "dddddddd", "name": "waits"}
    assert cluster.client.get("/jobs/dddddddd/metrics") == []
    assert cluster.client.get("/jobs/dddddddd/accumulators")["job-accumulators"] == []
    assert cluster.client.get("/jobs/dddddddd/exceptions")["exceptionHistory"]["entries"] == []


def test_so_many_failures_of_an_ended_job_as_are_asked_for(cluster: PlayedCluster) -> None:
    """A page that shows the newest would get all of them, and not be told that there are more."""
    cluster.jobs["dddddddd"] = dataclasses.replace(cluster.jobs["dddddddd"], status=JobStatus.FAILED)
    folder = cluster.directory / "dddddddd"
    folder.mkdir()
    kept = {"exceptionHistory": {"entries": [{"exceptionName": "b"}, {"exceptionName": "a"}], "truncated": False}}
    answers = [{"path": "/jobs/dddddddd/exceptions", "json": json.dumps(kept)}]
    (folder / ARCHIVE).write_text(json.dumps({"archive": answers}), encoding="utf-8")
    path = "/jobs/dddddddd/exceptions"
    assert cluster.client.get(path) == kept
    newest = {"entries": [{"exceptionName": "b"}], "truncated": True}
    assert cluster.client.get(f"{path}?maxExceptions=1") == {"exceptionHistory": newest}
    with pytest.raises(JobError, match="maxExceptions must be a number, got 'x'"):
        cluster.client.get(f"{path}?maxExceptions=x")


def test_why_a_job_could_not_begin_is_told(cluster: PlayedCluster) -> None:
    """Flink's pages list it as FAILED, and would have an error in place of the reason."""
    job = cluster.jobs["dddddddd"]
    cluster.jobs["dddddddd"] = dataclasses.replace(
        job, status=JobStatus.FAILED, ended_ms=5_000, kind="SourceError", error="operator 'lines': no such file"
    )
    shown = cluster.client.get("/jobs/dddddddd")
    assert (shown["state"], shown["timestamps"]["FAILED"], shown["vertices"]) == ("FAILED", 5_000, [])
    (failure,) = cluster.client.get("/jobs/dddddddd/exceptions")["exceptionHistory"]["entries"]
    assert (failure["exceptionName"], failure["timestamp"]) == ("penstock.SourceError", 5_000)
    assert failure["stacktrace"] == "operator 'lines': no such file"
    cause = cluster.client.get("/jobs/dddddddd/execution-result")["job-execution-result"]["failure-cause"]
    assert "penstock.SourceError" in cause["class"]


def test_how_a_job_has_ended_is_known_without_its_process(cluster: PlayedCluster) -> None:
    """A client that waits for a job would wait for ever, or fail, when the job's process is killed."""
    path = "/jobs/dddddddd/execution-result"
    assert cluster.client.get(path) == {"status": {"id": "IN_PROGRESS"}}, "it waits for a slot"
    job = cluster.jobs["dddddddd"]
    cluster.jobs["dddddddd"] = dataclasses.replace(job, status=JobStatus.FAILED, ended_ms=5_000, error="killed")
    result = cluster.client.get(path)["job-execution-result"]
    assert (result["id"], result["application-status"], result["net-runtime"]) == ("dddddddd", "FAILED", 5_000)
    assert result["failure-cause"]["stack-trace"] == "killed"


def test_a_path_with_any_characters_is_passed_on(cluster: PlayedCluster) -> None:
    """What was typed wrong would be an error of the cluster's, with a traceback in its log."""
    path = f"/jobs/bbbbbbbb2222/vertices/{quote('a ١/?')}"
    status, answer = cluster.client.answer("GET", path)
    assert status == 404 and b"can't be asked" not in answer


def test_what_was_kept_of_a_job_and_is_damaged_is_named(cluster: PlayedCluster) -> None:
    """ "This is not known" sends nobody to the disk. The list of all jobs goes without it."""
    cluster.jobs["dddddddd"] = dataclasses.replace(cluster.jobs["dddddddd"], status=JobStatus.FINISHED)
    (cluster.directory / "dddddddd").mkdir()
    file = cluster.directory / "dddddddd" / ARCHIVE
    file.write_bytes(b'{"archive": [{"path": "/jobs/overview", "js')
    with pytest.raises(JobError, match=f"{file}, is damaged"):
        cluster.client.get("/jobs/dddddddd")
    states = {job["jid"]: job["state"] for job in cluster.client.get("/jobs/overview")["jobs"]}
    assert states["dddddddd"] == "FINISHED"


def test_the_head_of_an_answer_has_its_status(cluster: PlayedCluster) -> None:
    """A monitor that asks whether a job is there would be told that it can't be changed any more."""
    cluster.jobs["dddddddd"] = dataclasses.replace(cluster.jobs["dddddddd"], status=JobStatus.FINISHED)
    assert cluster.client.answer("HEAD", "/jobs/dddddddd/status") == (200, b"")
    assert cluster.client.answer("HEAD", "/jobs/aaaaaaaa1111") == (200, b"")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "?mode=cancel"),
        ("PATCH", "/vertices/x"),
        ("POST", "/savepoints"),
        ("POST", "/stop"),
        ("PUT", "/rescaling"),
    ],
)
def test_what_is_asked_of_a_job_that_has_ended_is_refused_as_by_the_job_itself(
    cluster: PlayedCluster, method: str, path: str
) -> None:
    """404 says that there is no such job: a script that cleans up would take its id for wrong."""
    cluster.jobs["dddddddd"] = dataclasses.replace(cluster.jobs["dddddddd"], status=JobStatus.FINISHED)
    status, answer = cluster.client.answer(method, f"/jobs/dddddddd{path}")
    assert (status, json.loads(answer)) == (409, {"errors": ["Job dddddddd has ended: FINISHED"]})


def test_a_job_that_was_cancelled_may_be_cancelled_again(cluster: PlayedCluster) -> None:
    """`flink cancel`, sent again as its answer was lost, would fail. Source: Flink, Dispatcher.cancelJob."""
    cluster.jobs["dddddddd"] = dataclasses.replace(cluster.jobs["dddddddd"], status=JobStatus.CANCELED)
    assert cluster.client.answer("PATCH", "/jobs/dddddddd?mode=cancel") == (202, b"{}")
    assert cluster.client.answer("PATCH", "/jobs/dddddddd/vertices/x")[0] == 409


@pytest.mark.parametrize("path", ["/jobs/dddddddd?mode=stop", "/jobs/dddddddd/vertices/x"])
def test_only_what_cancels_cancels_a_job_that_waits(cluster: PlayedCluster, path: str) -> None:
    """A job that waits would be gone by a request that a job that runs refuses."""
    assert cluster.client.answer("PATCH", path)[0] == 404
    assert cluster.posted == []
    assert cluster.client.answer("PATCH", "/jobs/dddddddd?mode=CANCEL")[0] == 202
    assert [type(event).__name__ for event in cluster.posted] == ["CancelRequested"]


def test_a_path_names_a_job_by_its_name(cluster: PlayedCluster) -> None:
    """A script would have to look up the id first, and do it again after each start."""
    status, answer = cluster.client.answer("GET", "/jobs/job/checkpoints")
    assert (status, answer) == cluster.client.answer("GET", "/jobs/bbbbbbbb2222/checkpoints")
    assert status == 200

    cluster.jobs["bbbbbbbb2222"] = dataclasses.replace(cluster.jobs["bbbbbbbb2222"], ended_ms=1)
    assert json.loads(cluster.client.answer("GET", "/jobs/job")[1])["jid"] == "aaaaaaaa1111"
    assert cluster.client.answer("GET", "/jobs/jo")[0] == 400


def test_a_job_that_waits_is_cancelled_by_its_name(cluster: PlayedCluster) -> None:
    """The request would be taken for one about a part of the job."""
    assert cluster.client.answer("PATCH", "/jobs/waits?mode=cancel")[0] == 202
    assert [type(event).__name__ for event in cluster.posted] == ["CancelRequested"]
