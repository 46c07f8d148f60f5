"""`penstock logs --output`: what a job of a cluster has printed, asked of a cluster that answers by a plan."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.service.cli.main import app
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.cluster.running_cluster import RunningCluster, announce, withdraw

PARTS = {"a1" * 16: b"one\n", "b2" * 16: b"two\nthree\n"}


def state(id: str, name: str, submitted_ms: int, phase: str) -> dict[str, object]:
    return {"id": id, "job_id": id, "name": name, "phase": phase, "submitted_ms": submitted_ms}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is asked of a cluster on this machine, which has a job that has ended and one that ends when it is asked."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    states = [state("a1" * 16, "flights", 1, "ENDED"), state("b2" * 16, "delays", 2, "RUNNING")]
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            path, _, begin = self.path.partition("/output?from=")
            id = path.rpartition("/")[2]
            if begin:
                self.wfile.write(PARTS[id][int(begin) : int(begin) + 4])
            elif id in PARTS:
                self.wfile.write(json.dumps(state(id, "", 0, "ENDED" if paths.count(path) > 1 else "RUNNING")).encode())
            else:
                self.wfile.write(json.dumps(states).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    (tmp_path / "penstock" / "rest").mkdir(parents=True)
    token = tmp_path / "penstock" / "rest" / f"{server.server_port}.token"
    token.write_text("abc")
    announce(
        RunningCluster(os.getpid(), str(tmp_path), RestAddress(f"http://127.0.0.1:{server.server_port}", str(token)))
    )
    try:
        yield paths
    finally:
        withdraw(os.getpid())
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("words", "shown"),
    [(["flights"], "one\n"), (["a1a1"], "one\n"), ([], "two\nthree\n"), (["delays", "--follow"], "two\nthree\n")],
)
def test_what_a_job_of_a_cluster_has_printed(asked: list[str], words: list[str], shown: str) -> None:
    """What a job prints that was handed over with -d could be read by no command."""
    done = CliRunner().invoke(app, ["logs", *words, "--output"])

    assert (done.exit_code, done.stdout) == (0, shown), done.output
    assert any("/output?from=0" in path for path in asked)


def test_a_cluster_by_its_address(asked: list[str], tmp_path: Path) -> None:
    """A job of a cluster that is reached by a tunnel is on no list of this machine."""
    (file,) = (tmp_path / "penstock" / "rest").glob("*.token")
    withdraw(os.getpid())
    done = CliRunner().invoke(app, ["logs", "flights", "--output", "-m", f"127.0.0.1:{file.stem}"])
    assert (done.exit_code, done.stdout) == (0, "one\n")


def test_a_job_that_no_cluster_has(asked: list[str]) -> None:
    """Nothing printed could mean that the job has printed nothing."""
    for reference in ("unknown", ""):
        done = CliRunner().invoke(app, ["logs", reference, "--output"])
        assert done.exit_code == 1
        assert f"has a job '{reference}'. Known jobs:\n  {'a1' * 16}  flights" in done.stderr
    with contextlib.suppress(FileNotFoundError):
        withdraw(os.getpid())
    alone = CliRunner().invoke(app, ["logs", "flights", "--output"])
    assert alone.exit_code == 1 and "no cluster is running on this machine" in alone.stderr
    assert CliRunner().invoke(app, ["logs", "-m", "127.0.0.1:1"]).exit_code == 2
