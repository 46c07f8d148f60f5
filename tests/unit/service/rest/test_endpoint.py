"""The port and the process's own paths."""

from __future__ import annotations

import dataclasses
import os
import socket
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.unit.service.rest.served import PlayedJob, Served

from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError
from penstock.engine.jobmaster.events import CancelRequested
from penstock.service.rest import token_server
from penstock.service.rest.endpoint import RestEndpoint, endpoint_of
from penstock.service.rest.ports import ports_in, preferring
from penstock.service.rest.token_server import TokenServer


def test_ports_are_a_list_of_ports_and_ranges() -> None:
    """A setting of Flink's would be read as another one."""
    assert list(ports_in("8081, 9000-9002,0")) == [8081, 9000, 9001, 9002, 0]
    for text in ("", "x", "9-8", "70000", "80-", "-1"):
        with pytest.raises(ConfigurationError, match=r"rest\.bind-port"):
            ports_in(text)


def test_a_port_comes_first_if_it_is_one_of_those_that_are_wanted() -> None:
    """Clients of a process would not find the one that takes its place; or a port be used that nobody has asked for."""
    assert preferring(8082, "8081-8099,0") == "8082,8081-8099,0"
    assert preferring(45_000, "8081-8099,0") == "45000,8081-8099,0"
    assert preferring(8082, "9000") == "9000"
    assert preferring(None, "0") == "0"


def test_the_next_port_is_taken_if_one_is_not_free(tmp_path: Path) -> None:
    """The second job on a machine would not start."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        endpoint = RestEndpoint(f"{taken},0", {"XDG_CACHE_HOME": str(tmp_path)})
        assert not endpoint.address.url.endswith(f":{taken}") and endpoint.address.url.startswith("http://127.0.0.1:")
        endpoint.close()
        with pytest.raises(ConfigurationError, match="is free"):
            RestEndpoint(str(taken), {"XDG_CACHE_HOME": str(tmp_path)})


def test_a_job_that_wants_no_endpoint_has_none() -> None:
    """`--rest-port off` would open a port nevertheless, and so would each program that python runs."""
    off = Configuration()
    off.set_string("rest.bind-port", "")
    assert endpoint_of(off, "0") is None and endpoint_of(Configuration(), None) is None


def test_a_job_runs_without_an_endpoint_where_no_token_can_be_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    process_without_endpoint: None,
) -> None:
    """A full disk, or a home that can't be written, would stop jobs from starting."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert endpoint_of(Configuration(), "0") is None
    assert "the job has no REST endpoint" in caplog.text


def test_the_process_is_shown_as_a_cluster_whose_slots_are_workers(served: Served) -> None:
    """Flink's pages would show an empty cluster."""
    shown = served.get("/overview")
    assert (shown["slots-total"], shown["jobs-running"]) == (3, 1)
    workers = served.get("/taskmanagers")["taskmanagers"]
    assert [one["id"] for one in workers] == ["level-0-slot-0", "level-1-slot-0", "level-1-slot-1"]
    assert served.get("/taskmanagers/level-1-slot-1")["slotsNumber"] == 1
    served.get("/taskmanagers/level-7-slot-0", 404)
    assert served.get("/config")["features"] == {
        "web-submit": False, "web-cancel": True, "web-rescale": True, "web-history": False,
    }  # fmt: skip


def test_secrets_are_no_part_of_the_settings_shown(tmp_path: Path) -> None:
    """Keys of an object store would be read in a browser, and copied into a bug report."""
    settings = {"fs.s3.secret-key": "x", "spark.hadoop.fs.s3a.access.key": "x", "parallelism.default": "2"}
    served = Served(tmp_path, settings=settings)
    for path in ("/jobmanager/config", "/jobs/id/jobmanager/config"):
        shown = {entry["key"]: entry["value"] for entry in served.get(path)}
        assert shown == dict.fromkeys(settings, "******") | {"parallelism.default": "2"}
    served.endpoint.close()


def test_secrets_inside_of_settings_are_no_part_of_what_is_shown_either(tmp_path: Path) -> None:
    """Parameters of a job are a map in one setting, and a database's password is in its address."""
    settings = {
        "pipeline.global-job-parameters": "db.password:hunter2,table:flights",
        "my.source": "postgresql://me:hunter2@host/db",
        "http-headers": "Authorization:hunter2",
    }
    served = Served(tmp_path, settings=settings)
    for path in ("/jobmanager/config", "/jobs/id/jobmanager/config", "/jobs/id/config"):
        assert b"hunter2" not in served.ask(path)[2]
    assert served.get("/jobs/id/config")["execution-config"]["user-config"]["table"] == "flights"
    served.endpoint.close()


def test_of_jobs_that_have_ended_the_newest_are_kept(served: Served) -> None:
    """A notebook that runs jobs all day would keep all that was ever known of each."""
    ended = PlayedJob()
    ended.played.handle(CancelRequested())
    ended.played.waits(1_000_000)
    for number in range(150):
        served.endpoint.jobs.add(dataclasses.replace(served.entry, job_id=f"ended {number}", job=ended))
    ids = [job["id"] for job in served.get("/jobs")["jobs"]]
    assert ids == ["id", *(f"ended {number}" for number in range(50, 150))]


def test_a_closed_endpoint_leaves_neither_thread_nor_port(served: Served) -> None:
    """A program that runs jobs all day would collect threads."""
    served.get("/overview")
    serving = f"penstock-rest-{served.host.rpartition(':')[2]}"
    assert serving in [thread.name for thread in threading.enumerate()]
    served.endpoint.close()
    assert serving not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(ConnectionError):
        served.get("/overview")


def test_connections_that_ask_nothing_make_room_for_those_that_do(served: Served) -> None:
    """Whoever reaches the port would take all of the driver's file descriptors, and the job would fail with them."""
    host, _, port = served.host.partition(":")
    silent = [socket.create_connection((host, int(port)), timeout=30) for _ in range(110)]
    assert served.get("/overview")["jobs-running"] == 1
    with pytest.raises(ConnectionError):
        # Closed without a word: the one that has waited longest.
        if silent[0].recv(1) == b"":
            raise ConnectionError
    for connection in silent:
        connection.close()


def test_a_request_that_does_not_come_to_its_end_is_waited_for_no_longer_than_its_time(tmp_path: Path) -> None:
    """A client that sends a byte an hour would hold its connection for as long as the job runs."""
    served = Served(tmp_path, request_s=0.05)
    host, _, port = served.host.partition(":")
    for beginning in (b"", b"GET /jobs HT", b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\ntok"):
        with socket.create_connection((host, int(port)), timeout=30) as slow:
            slow.sendall(beginning)
            assert slow.recv(1) == b"", "it was closed, and not answered"
    served.endpoint.close()


def test_a_process_that_a_program_forks_neither_keeps_the_port_nor_takes_the_token_away(tmp_path: Path) -> None:
    """A program with a pool of processes: the first to end would lock the user out; the last would hold the port."""
    endpoint = RestEndpoint("0", {"XDG_CACHE_HOME": str(tmp_path)})
    port = int(endpoint.address.url.rpartition(":")[2])
    ended, end = os.pipe()
    ready, begin = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        endpoint.close()  # as its exit does
        os.write(begin, b"1")
        os.read(ended, 1)
        os._exit(0)
    os.close(ended)
    # A child that has not begun to run still has the port.
    os.read(ready, 1)
    os.close(ready)
    os.close(begin)
    try:
        assert endpoint.address.token() == endpoint.token
        endpoint.close()
        with pytest.raises(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=30):
            pass
    finally:
        os.close(end)
        os.waitpid(child, 0)


def test_what_answers_is_imported_when_someone_asks(tmp_path: Path) -> None:
    """A quarter of a second of each start would go to a server that hardly anyone asks before the job runs."""
    made: list[str] = []

    async def answering(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def application() -> Any:
        made.append("application")
        return answering

    for is_asked in (False, True):
        server = TokenServer("0", {"XDG_CACHE_HOME": str(tmp_path)}, 10.0)
        ticks = threading.Semaphore(0)
        server.start(application, ticks.release, 0.001)
        # Samples are taken meanwhile.
        assert ticks.acquire(timeout=30)
        if is_asked:
            with urllib.request.urlopen(server.address.url, timeout=30) as answer:
                assert answer.status == 204
        server.close()
        assert made == ["application"] * is_asked


def test_samples_keep_their_interval_if_nobody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates would be of shorter times than the page says."""
    monkeypatch.setattr(token_server, "HEAD_START_S", 0.01)
    served = threading.Event()

    async def answering(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("nothing is asked")

    def application() -> Any:
        served.set()
        return answering

    ticks: list[str] = []
    server = TokenServer("0", {"XDG_CACHE_HOME": str(tmp_path)}, 10.0)
    server.start(application, lambda: ticks.append("tick"), 1_000.0)
    assert served.wait(30)
    assert not ticks
    server.close()
