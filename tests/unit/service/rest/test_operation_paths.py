"""Savepoints, stop and cancel over REST."""

from __future__ import annotations

import base64
from pathlib import Path

from tests.unit.engine.jobmaster.played_job import plan
from tests.unit.service.rest.served import PlayedJob, Served

from penstock.common.errors import CheckpointError, JobError
from penstock.engine.jobmaster.events import CancelRequested
from penstock.engine.plan.vertex_ids import vertex_id


def test_a_savepoint_is_asked_for_and_its_path_fetched(served: Served) -> None:
    """`flink savepoint` would wait for ever, or print no path."""
    body = {"target-directory": "/savepoints", "cancel-job": False}
    trigger = served.send("POST", "/jobs/id/savepoints", body, 202)["request-id"]
    assert served.get(f"/jobs/id/savepoints/{trigger}")["status"] == {"id": "IN_PROGRESS"}
    ((directory, stop, _, outcome),) = served.job.savepoints
    assert (directory, stop) == ("/savepoints", False)
    outcome.set_result("/savepoints/savepoint-1")
    assert served.get(f"/jobs/id/savepoints/{trigger}") == {
        "status": {"id": "COMPLETED"},
        "operation": {"location": "/savepoints/savepoint-1"},
    }
    served.get(f"/jobs/id/savepoints/{'0' * 32}", 404)
    served.get("/jobs/id/savepoints/0", 400)


def test_a_trigger_that_is_sent_again_is_no_second_one(served: Served) -> None:
    """A client whose connection broke would stop the job twice, or get two savepoints."""
    body = {"targetDirectory": "/savepoints", "drain": True, "triggerId": "0" * 32}
    for _ in range(2):
        assert served.send("POST", "/jobs/id/stop", body, 202) == {"request-id": "0" * 32}
    assert [one[:3] for one in served.job.savepoints] == [("/savepoints", True, True)]


def test_a_trigger_is_known_when_the_job_has_stopped_by_it(served: Served) -> None:
    """Who asks again, since the answer was lost, would hear that the job has ended, and look for its savepoint."""
    body = {"targetDirectory": "/savepoints", "triggerId": "0" * 32}
    served.send("POST", "/jobs/id/stop", body, 202)
    served.job.savepoints[0][3].set_result("/savepoints/savepoint-1")
    served.job.played.handle(CancelRequested())
    served.job.played.waits(1_000_000)
    assert served.send("POST", "/jobs/id/stop", body, 202) == {"request-id": "0" * 32}
    shown = served.get(f"/jobs/id/savepoints/{'0' * 32}")
    assert shown["operation"] == {"location": "/savepoints/savepoint-1"}
    served.send("POST", "/jobs/id/stop", body | {"triggerId": "1" * 32}, 409)


def test_why_a_savepoint_failed_comes_as_a_java_exception(served: Served) -> None:
    """Flink's client would fail while it reads the answer, and hide why the savepoint failed."""
    trigger = served.send("POST", "/jobs/id/savepoints", {"target-directory": "s3://b/d"}, 202)["request-id"]
    served.job.savepoints[0][3].set_exception(CheckpointError("the bucket 'b' is not there: é"))
    cause = served.get(f"/jobs/id/savepoints/{trigger}")["operation"]["failure-cause"]
    assert cause["class"] == "penstock.CheckpointError" and cause["stack-trace"].startswith("the bucket")
    java = base64.b64decode(cause["serialized-throwable"])
    assert java.startswith(b"\xac\xed\x00\x05sr\x00)org.apache.flink.util.SerializedThrowable")
    assert "penstock.CheckpointError: the bucket 'b' is not there: é".encode() in java


def test_what_can_not_be_done_is_refused_before_any_task_hears_of_it(served: Served) -> None:
    """A job would be stopped whose savepoint has no place to go to."""
    for body in (
        {},
        {"targetDirectory": "relative/path"},
        {"targetDirectory": 3},
        {"targetDirectory": "/d", "formatType": "NATIVE"},
        {"targetDirectory": "/d", "triggerId": "../../x"},
        b"{",
        b"[1]",
    ):
        served.send("POST", "/jobs/id/stop", body, 400)
    served.send("POST", "/jobs/id/stop", b" " * 100_000, 413)
    served.send("PATCH", "/jobs/id?mode=stop", status=400)
    assert served.job.savepoints == [] and not served.job.is_cancelled


def test_a_job_is_cancelled_once_it_runs_and_again_if_it_was(tmp_path: Path) -> None:
    """`flink cancel`, sent again as its answer was lost, would fail. Source: Flink, Dispatcher.cancelJob."""
    served = Served(tmp_path, PlayedJob(plan()))
    served.send("PATCH", "/jobs/id?mode=cancel", status=202)
    assert served.job.is_cancelled
    served.job.played.handle(CancelRequested())
    served.job.played.waits(1_000_000)
    assert served.get("/jobs/id/status") == {"status": "CANCELED"}
    served.send("PATCH", "/jobs/id", status=202)
    served.endpoint.close()


def test_a_job_that_has_failed_is_not_cancelled(tmp_path: Path) -> None:
    """`flink cancel` would say that it has cancelled a job that had failed before."""
    served = Served(tmp_path, PlayedJob(plan(), attempts=0))
    served.job.played.runs()
    served.job.played.fails(JobError("a fault"))
    served.job.played.waits(1_000_000)
    assert "has ended: FAILED" in served.send("PATCH", "/jobs/id", status=409)["errors"][0]
    assert not served.job.is_cancelled
    served.endpoint.close()


def test_a_parallelism_that_the_job_refuses_now_is_told(served: Served) -> None:
    """A client would wait for subtasks that never come, and only the log say why."""
    served.job.refusal = JobError("the job is already being rescaled or updated")
    refused = served.send("PUT", "/jobs/id/resource-requirements", {}, 409)
    assert refused == {"errors": ["the job is already being rescaled or updated"]}


def test_the_end_of_a_job_waits_for_the_client_that_has_stopped_it(served: Served) -> None:
    """The process would be gone before `flink stop` has asked for the path of the savepoint."""
    triggers = served.entry.triggers
    trigger = served.send("POST", "/jobs/id/stop", {"targetDirectory": "/d"}, 202)["request-id"]
    served.job.savepoints[0][3].set_result("/d/1")
    served.get(f"/jobs/id/savepoints/{trigger}")
    triggers.wait_until_read(timeout_s=3600)


def test_the_parallelism_of_vertices_is_read_and_changed_as_flinks_is(served: Served) -> None:
    """The buttons of Flink's page would do nothing, or give another vertex more subtasks."""
    source, sums = [vertex_id(vertex) for vertex in served.job.played.graph.vertices]
    shown = served.get("/jobs/id/resource-requirements")
    assert shown == {
        source: {"parallelism": {"lowerBound": 1, "upperBound": 1}},
        sums: {"parallelism": {"lowerBound": 1, "upperBound": 2}},
    }
    shown[sums]["parallelism"]["upperBound"] = 4
    assert served.send("PUT", "/jobs/id/resource-requirements", shown) == {}
    assert served.job.rescales == [{0: 1, 1: 4}]


def test_a_parallelism_that_can_not_be_is_refused(served: Served) -> None:
    """A client would believe that it has been accepted."""
    source, sums = [vertex_id(vertex) for vertex in served.job.played.graph.vertices]
    for id, bounds, why in (
        (source, {"upperBound": 2}, "one subtask reads a collection"),
        (sums, {"upperBound": 0}, ">= 1"),
        (sums, {"upperBound": 1_000}, "expected 1 to 128, its maximum parallelism"),
        (sums, {}, "upperBound"),
        (sums, {"lowerBound": 3, "upperBound": 2}, "above its upper bound: 3 > 2"),
        ("0" * 32, {"upperBound": 2}, "no vertices with these ids"),
    ):
        refused = served.send("PUT", "/jobs/id/resource-requirements", {id: {"parallelism": bounds}}, 400)
        assert why in refused["errors"][0], refused
    assert served.job.rescales == []


def test_a_job_that_has_ended_gets_no_other_parallelism(tmp_path: Path) -> None:
    """A client would wait for subtasks that never come."""
    served = Served(tmp_path, PlayedJob(plan()))
    served.job.played.handle(CancelRequested())
    served.job.played.waits(1_000_000)
    served.send("PUT", "/jobs/id/resource-requirements", {}, 409)
    served.endpoint.close()
