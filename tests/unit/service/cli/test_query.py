"""`penstock query` of a job whose REST answers by a plan."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.engine.rpc.server import ControlServer
from penstock.service.cli.main import app
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.cluster.running_jobs import JobRegistry, RunningJob

ID = "a" * 32


@pytest.fixture
def stateless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A job with a checkpoint, and without keyed state."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"checkpoint-id": 3, "completed": 0, "states": []}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    control = ControlServer("127.0.0.1")
    control.start(lambda identity, message: None, lambda: None)
    (tmp_path / "token").write_text("abc")
    rest = RestAddress(f"http://127.0.0.1:{server.server_port}", str(tmp_path / "token"))
    JobRegistry().add(RunningJob(ID, "numbers", os.getpid(), 0, control.address, rest))
    try:
        yield
    finally:
        control.stop()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.usefixtures("stateless")
def test_a_job_without_keyed_state_says_so() -> None:
    """A line with a checkpoint and nothing else would look like a command that has failed to list it."""
    done = CliRunner().invoke(app, ["query", "numbers"])

    assert done.exit_code == 0, done.output
    first, second = done.stdout.splitlines()
    assert first.startswith("checkpoint 3, ") and "no keyed state" in second
