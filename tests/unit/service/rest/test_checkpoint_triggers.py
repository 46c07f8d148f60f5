"""Checkpoints that clients ask for over REST, beside those of the interval."""

from __future__ import annotations

from tests.unit.service.rest.served import Served

from penstock.common.errors import CheckpointError
from penstock.engine.jobmaster.events import CancelRequested


def test_a_checkpoint_is_asked_for_and_its_number_fetched(served: Served) -> None:
    """`flink checkpoint`, before the machines are worked on, would fail."""
    id = served.send("POST", "/jobs/id/checkpoints", {"checkpointType": "FULL"}, 202)["request-id"]
    assert served.get(f"/jobs/id/checkpoints/{id}") == {"status": {"id": "IN_PROGRESS"}, "operation": None}
    ((full, outcome),) = served.job.checkpoints
    assert full
    outcome.set_result("7")
    shown = served.get(f"/jobs/id/checkpoints/{id}")
    assert shown == {"status": {"id": "COMPLETED"}, "operation": {"checkpointId": 7}}
    assert served.get("/jobs/id/checkpoints/config")["mode"], "a path beside it"
    served.get(f"/jobs/id/checkpoints/{'0' * 32}", 404)
    served.get("/jobs/id/checkpoints/0", 400)


def test_why_a_checkpoint_failed_is_told(served: Served) -> None:
    """A script would go on as if there was one."""
    id = served.send("POST", "/jobs/id/checkpoints", {}, 202)["request-id"]
    ((full, outcome),) = served.job.checkpoints
    assert not full
    outcome.set_exception(CheckpointError("the checkpoint failed: the disk is full"))
    cause = served.get(f"/jobs/id/checkpoints/{id}")["operation"]["failureCause"]
    assert cause["class"] == "penstock.CheckpointError" and "the disk is full" in cause["stack-trace"]


def test_what_can_not_be_asked_for_is_refused(served: Served) -> None:
    """One that is sent again would be a second checkpoint, and one of a job that has ended be waited for."""
    for body in ({"checkpointType": "SOME"}, {"triggerId": "x"}):
        served.send("POST", "/jobs/id/checkpoints", body, 400)
    for _ in range(2):
        served.send("POST", "/jobs/id/checkpoints", {"triggerId": "0" * 32}, 202)
    assert len(served.job.checkpoints) == 1
    served.job.played.handle(CancelRequested())
    served.job.played.waits(1_000_000)
    served.send("POST", "/jobs/id/checkpoints", {}, 409)
    served.send("POST", "/jobs/id/checkpoints", {"triggerId": "0" * 32}, 202)


def test_a_savepoint_of_the_same_trigger_is_another(served: Served) -> None:
    """A checkpoint would be promised and not taken, and its number be a path."""
    body = {"target-directory": "/savepoints", "triggerId": "0" * 32}
    served.send("POST", "/jobs/id/savepoints", body, 202)
    served.send("POST", "/jobs/id/checkpoints", {"triggerId": "0" * 32}, 202)
    served.job.savepoints[0][3].set_result("/savepoints/1")
    served.job.checkpoints[0][1].set_result("7")
    assert served.get(f"/jobs/id/checkpoints/{'0' * 32}")["operation"] == {"checkpointId": 7}
    assert served.get(f"/jobs/id/savepoints/{'0' * 32}")["operation"] == {"location": "/savepoints/1"}


def test_a_body_that_is_too_deep_is_a_bad_request(served: Served) -> None:
    """The server would say that it is broken."""
    served.send("POST", "/jobs/id/checkpoints", b'{"x":' + b"[" * 9_000, 400)
