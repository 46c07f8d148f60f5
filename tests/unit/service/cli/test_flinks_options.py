"""Options as `flink` spells them: they mean the same here, or are refused with what to write instead."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.engine.rpc.messages import Answer, Command
from penstock.engine.rpc.server import ControlServer
from penstock.service.cli.main import app
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.cluster.running_cluster import RunningCluster, announce, withdraw
from penstock.service.cluster.running_jobs import JobRegistry, RunningJob


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job that prints its arguments, and the settings that its environments start from."""
    path = tmp_path / "job.py"
    path.write_text(
        "import sys\n"
        "from penstock.service.client.context_environment import context_environment\n"
        "print(sys.argv[1:], context_environment().configuration.to_dict())\n"
    )
    return path


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (["-py"], {}),
        (["-p", "2", "--python"], {"parallelism.default": "2"}),
        (["-p2", "-py"], {"parallelism.default": "2"}),
        (["--fromSavepoint", "/s"], {"execution.state-recovery.path": "/s"}),
        (["--allowNonRestoredState"], {"execution.state-recovery.ignore-unclaimed-state": "true"}),
    ],
)
def test_a_command_line_of_flink_run(job: Path, words: list[str], settings: dict[str, str]) -> None:
    """`-py job.py` was read as a parallelism of `y`, and scripts that call `flink run` had to be changed."""
    done = CliRunner().invoke(app, ["run", *words, str(job), "--day", "x"])

    assert (done.exit_code, done.stdout) == (0, f"{['--day', 'x']} {settings}\n"), done.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "-pyfs", "a.zip", "-py", "JOB"], "-D python.files"),
        (["run", "-pyexec", "python3", "JOB"], "-D python.files"),
        (["run", "-pym", "job", "-d"], "file with the modules next to it"),
        (["run", "-d", "JOB"], "with -m HOST:PORT"),
        (["cancel", "-s", "/savepoints", "flights"], "penstock stop JOB DIR"),
        (["cancel", "-s", "flights"], "penstock stop JOB DIR"),
        (["stop", "-p", "/a", "flights", "/b"], "also given as an argument"),
    ],
)
def test_what_is_not_done_is_told_with_what_is(job: Path, words: list[str], told: str) -> None:
    """A job would be cancelled without the savepoint that was asked for, or end with a program that is detached."""
    done = CliRunner().invoke(app, [str(job) if word == "JOB" else word for word in words])

    assert done.exit_code == 2
    assert told in " ".join(done.output.replace("│", " ").split()), done.output


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Command]]:
    """What a running job is asked."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked: list[Command] = []
    server = ControlServer("127.0.0.1")

    def answer(identity: bytes, message: object) -> None:
        assert isinstance(message, Command)
        asked.append(message)
        server.send(identity, Answer(True, "done"))

    server.start(answer, lambda: None)
    JobRegistry().add(RunningJob("a" * 32, "flights", os.getpid(), time.time_ns() // 1_000_000, server.address))
    yield asked
    server.stop()


@pytest.mark.parametrize(
    ("words", "directory", "drain"),
    [
        (["-p", "/saved"], "/saved", False),
        (["--savepointPath", "/saved", "-d"], "/saved", True),
        (["--drain"], None, True),
    ],
)
def test_a_command_line_of_flink_stop(
    commands: list[Command], words: list[str], directory: str | None, drain: bool
) -> None:
    """Windows that are open would be dropped, or the savepoint be where nobody looks for it."""
    assert CliRunner().invoke(app, ["stop", *words, "flights"]).stdout == "done\n"
    (asked,) = commands
    assert (asked.verb, asked.directory, asked.drain) == ("stop", directory, drain)


JOBS = [
    ("b" * 32, "waiting", "QUEUED", None, "waits for 4 slots"),
    ("c" * 32, "over", "ENDED", "FINISHED", ""),
    ("d" * 32, "going on", "RUNNING", None, ""),
]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One with a job that waits, one that runs and one that has ended."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    keys = ("id", "name", "phase", "status", "waiting")
    more = {"job_id": "", "submitted_ms": 0, "slots": 4, "error": ""}
    body = json.dumps([{**more, **dict(zip(keys, job, strict=True))} for job in JOBS]).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    (tmp_path / "token").write_text("abc")
    rest = RestAddress(f"http://127.0.0.1:{server.server_port}", str(tmp_path / "token"))
    announce(RunningCluster(os.getpid(), str(tmp_path), rest))
    try:
        yield
    finally:
        withdraw(os.getpid())
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(("option", "shown"), [("-s", "b"), ("--scheduled", "b"), ("-a", "bc"), ("-r", "")])
def test_a_command_line_of_flink_list(option: str, shown: str) -> None:
    """A job that waits for slots would be on no list, and be started again."""
    done = CliRunner().invoke(app, ["list", option])

    assert done.exit_code == 0, done.output
    assert [line[0] for line in done.stdout.splitlines()] == list(shown)
    assert ("waits for 4 slots" in done.stdout) == ("b" in shown)
    assert ("no job is running" in done.stderr) == (not shown)
