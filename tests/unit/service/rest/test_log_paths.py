"""Logs over REST."""

from __future__ import annotations

import http.client

import pytest
from tests.unit.service.rest.served import Served


@pytest.fixture
def logs(served: Served) -> Served:
    """A driver's log, a worker's, and what nobody may read."""
    (served.logs / "driver.log").write_text("the driver\n")
    (served.logs / "driver.log.1").write_text("before\n")
    (served.logs / "level-0-slot-1.log").write_text("a <b>worker</b>\n")
    (served.logs / "level-0-slot-10.log").write_text("another\n")
    (served.logs / "job.json").write_text("{}")
    (served.logs.parent / "secret.log").write_text("secret")
    return served


def test_logs_are_listed_by_process_and_sent_as_text(logs: Served) -> None:
    """A worker's log would be looked for on the machine where it ran, or be run as a page."""
    listed = logs.get("/jobmanager/logs")["logs"]
    assert [(log["name"], log["size"]) for log in listed] == [("driver.log", 11), ("driver.log.1", 7)]
    assert logs.ask("/jobmanager/log")[2] == b"the driver\n"
    assert logs.ask("/jobmanager/logs/driver.log.1")[2] == b"before\n"
    assert [log["name"] for log in logs.get("/taskmanagers/level-0-slot-1/logs")["logs"]] == ["level-0-slot-1.log"]
    status, headers, text = logs.ask("/taskmanagers/level-0-slot-1/log")
    assert (status, text) == (200, b"a <b>worker</b>\n") and headers["content-type"].startswith("text/plain")


def test_a_worker_that_there_is_not_has_no_logs(logs: Served) -> None:
    """A name that was typed wrong would look like a worker that has written nothing."""
    assert logs.get("/taskmanagers/nope/logs", 404)["errors"] == ["TaskExecutor nope not found"]
    assert logs.get("/taskmanagers/level-1-slot-1/logs") == {"logs": []}, "it has written nothing yet"
    assert logs.get("/taskmanagers/level-0-slot-10/logs")["logs"], "it was there before a rescaling"


@pytest.mark.parametrize(
    "name", ["../secret.log", "..%2fsecret.log", "%2e%2e/secret.log", "/etc/passwd", "%2fetc%2fpasswd", "job.json", ""]
)
def test_no_path_leads_out_of_the_folder(logs: Served, name: str) -> None:
    """Who has the token of one job could read the user's keys."""
    for path in ("/jobmanager/logs/", "/taskmanagers/level-0-slot-1/logs/", "/taskmanagers/../logs/"):
        status, _, body = logs.ask(path + name)
        assert status in (400, 404) and b"secret" not in body.replace(b"secret.log", b"")


def test_a_log_is_sent_as_long_as_it_was_while_its_job_goes_on_writing(logs: Served) -> None:
    """The log of a job that writes much would arrive cut off, at any place, each time it is looked at."""
    path = logs.logs / "driver.log"
    path.write_bytes(b"x" * 10_000_000)
    connection = http.client.HTTPConnection(logs.host, timeout=30)
    connection.request("GET", "/jobmanager/log", headers={"Authorization": f"Bearer {logs.endpoint.token}"})
    answer = connection.getresponse()
    with path.open("ab") as file:
        file.write(b"y" * 1_000_000)
    assert answer.read() == b"x" * 10_000_000
    connection.request("GET", "/jobs", headers={"Authorization": f"Bearer {logs.endpoint.token}"})
    assert connection.getresponse().status == 200, "the connection goes on"
    connection.close()
