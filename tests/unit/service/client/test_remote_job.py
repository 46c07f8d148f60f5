"""A job of a cluster, as its client sees it, over HTTP."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.service.client import remote_job
from penstock.service.client.plan_executor import PlanExecutor
from penstock.service.client.remote_job import RemoteJob
from penstock.service.client.rest_client import RestClient, UnreachableError

Answer = Callable[[str, int], bytes | None]
"""By the path and the first byte that is asked for. None: the connection ends without an answer."""


@contextlib.contextmanager
def cluster(answer: Answer) -> Iterator[RestClient]:
    """One that answers by a plan, where a real one needs luck."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            body = answer(url.path, int(parse_qs(url.query).get("from", ["0"])[0]))
            if body is not None:
                self.send_response(410 if b'"begin"' in body else 409 if b"has ended" in body else 200)
                self.end_headers()
                self.wfile.write(body)

        def do_PATCH(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield RestClient(f"http://127.0.0.1:{server.server_port}", "token")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def graph() -> JobGraph:
    """Of a small program."""
    executor = PlanExecutor()
    env = StreamExecutionEnvironment(executor=executor)
    env.from_collection([1]).print()
    env.execute("small")
    return executor.graphs[0]


def test_what_a_job_prints_is_shown_as_it_was_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Letters would be lost where one part of the output ends and the next one begins."""
    printed = "a\u00e9\u4e16\n".encode()

    def answer(path: str, begin: int) -> bytes:
        if path.endswith("/output"):
            return printed[begin : begin + 1]
        return json.dumps({"status": "FINISHED", "phase": "ENDED", "job_id": "a", "waiting": ""}).encode()

    with cluster(answer) as client:
        assert RemoteJob(client, "a", graph()).wait() is None
    assert capsys.readouterr().out == printed.decode()


def test_what_is_kept_no_more_is_said_to_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """A user would take the rest for all that was printed, or wait for ever for what is gone."""
    printed = b"one\ntwo\nthree\n"

    def answer(path: str, begin: int) -> bytes:
        if path.endswith("/output"):
            return printed[begin:] if begin >= 4 else json.dumps({"errors": ["gone"], "begin": 4}).encode()
        return json.dumps({"status": "FINISHED", "phase": "ENDED", "job_id": "a", "waiting": ""}).encode()

    with cluster(answer) as client:
        assert RemoteJob(client, "a", graph()).wait() is None
    shown = capsys.readouterr()
    assert shown.out == "two\nthree\n" and "4 bytes of the job's output are missing" in shown.err


def test_a_job_that_waits_is_found_again_when_another_process_has_taken_the_clusters_place() -> None:
    """Programs whose jobs are in the queue would end with an error, and their jobs start without them."""
    asked: list[str] = []

    def answer(path: str, begin: int) -> bytes | None:
        asked.append(path)
        return None if len(asked) < 3 else json.dumps({"job_id": "a"}).encode()

    with cluster(answer) as client:
        assert RemoteJob(client, "a", graph()).retried_state()["job_id"] == "a"
    assert len(asked) == 3


def test_a_job_that_is_not_attached_is_not_waited_for_in_the_queue() -> None:
    """A script that submits with -d would hang until others' jobs have ended."""

    def answer(path: str, begin: int) -> bytes:
        return json.dumps({"status": None, "phase": "QUEUED", "job_id": "", "waiting": "waits for 2 slots"}).encode()

    with cluster(answer) as client:
        assert RemoteJob(client, "a", graph(), attached=False).wait() is None


def test_who_cancels_a_job_is_told_if_nobody_has_heard_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program would go on, or start another job, while the one that it has cancelled runs."""
    monkeypatch.setattr(remote_job, "LOST_S", 0.2)
    with cluster(lambda path, begin: b'{"errors": ["Job a has ended: FINISHED"]}') as client:
        RemoteJob(client, "a", graph()).cancel()
    with pytest.raises(UnreachableError, match="whether the job is canceled is unknown"):
        RemoteJob(client, "a", graph()).cancel()
