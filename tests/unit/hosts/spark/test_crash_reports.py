"""Workers that end without an error: the daemon reports them before Spark notices their end."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import daemon

from penstock.hosts.spark.worker.crash_reports import describe_end

PROGRAM = """
import os, signal, socket, sys, time
from types import SimpleNamespace as N
from penstock.connectors.files.formats.streams import reading_raw
from penstock.engine.runtime.execution_mode import BATCH, STREAMING
from penstock.hosts.spark.internals.daemon import Workers
from penstock.hosts.spark.worker.crash_reports import CrashReports, previous_report, write_note, remove_note

ends = {
    "exits": lambda: os._exit(3),
    "exits well": lambda: os._exit(0),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "crashes": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "crashes of a file": lambda: next(reading_and(lambda: os.kill(os.getpid(), signal.SIGSEGV))),
    "crashes after a file": lambda: (next(reading_and(int), None), os.kill(os.getpid(), signal.SIGSEGV)),
    "as it should": remove_note,
}
def reading_and(end):
    with reading_raw(os.environ["INPUT"]) as stream:
        end()
    yield from ()

crash_reports = CrashReports()

def told(pid, status):
    time.sleep(0.05)  # Spark must not be quicker.
    crash_reports.worker_ended(pid, status)

workers = Workers(told)
workers.set_handler(signal.SIGCHLD, signal.SIG_IGN)

def forked(end):
    ours, sock = socket.socketpair()
    ours.sendall(b"unread bytes")  # Before the fork: a worker that is killed immediately may end right after it.
    pid = workers.fork()
    if pid == 0:
        ours.close()
        nodes = [N(operator=N(name="orders")), N(operator=N(name="sum"))]
        vertices = [N(parallelism=2, nodes=nodes), N(parallelism=1, nodes=[N(operator=N(name="no"))])]
        level = N(job_id="job", epoch=1, attempt=0, level=1, mode=BATCH if batched else STREAMING, vertices=vertices)
        print(previous_report(level, [1]), file=sys.stderr, flush=True)
        write_note(level, [1])
        sock.sendall(b"ready")
        time.sleep(0.05 if end != "killed" else 0)
        ends[end]()
        os._exit(0)
    sock.close()
    return pid, ours

def received(ours):
    # The daemon, too, looks up each second: a signal that comes right before a wait is handled only after it.
    ours.settimeout(0.1)
    while True:
        try:
            return ours.recv(100)
        except TimeoutError:
            pass

batched = sys.argv[1] == "batched"
for end in sys.argv[2:]:
    pid, ours = forked(end)
    assert received(ours) == b"ready"
    assert received(ours) == b""
    crash = os.path.join(os.environ["PYTHON_FAULTHANDLER_DIR"], str(pid))
    print(open(crash).read() if os.path.exists(crash) else "nothing")
"""


def told_of(tmp_path: Path, *ends: str, mode: str = "pipelined") -> subprocess.CompletedProcess[str]:
    """Return the reports at the paths that Spark reads, by worker, and the errors that workers printed."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, mode, *ends],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path), "PYTHON_FAULTHANDLER_DIR": str(tmp_path), "INPUT": __file__},
    )


def test_how_a_worker_has_ended_is_there_when_its_connection_ends(tmp_path: Path) -> None:
    """A user would read that a worker went away, and look for a lack of memory that there is not."""
    lines = told_of(tmp_path, "exits", "exits well", "killed", "crashes").stdout.splitlines()
    failures = [json.loads(base64.b64decode(line.split("<")[1].split(">")[0])) for line in lines]
    worker = "the worker of level 1 slot 1, which runs 'orders', 'sum', "
    assert {kind for kind, *_ in failures} == {"TaskLostError"}
    for (_, text, *_), expected in zip(
        failures,
        [
            "ended itself with exit code 3: a function, or a library that it uses, has called os._exit",
            "ended itself with exit code 0: a function",
            "was killed from outside (SIGKILL",
            "has crashed (SIGSEGV)",
        ],
        strict=True,
    ):
        assert text.startswith(worker + expected)
    assert not list(tmp_path.glob("*.penstock"))


def test_a_crash_names_the_file_that_was_read(tmp_path: Path) -> None:
    """A user would not learn which of a million files of ORC makes pyarrow crash: the format has no checksums."""
    lines = told_of(tmp_path, "crashes of a file", "crashes after a file").stdout.splitlines()
    one, other = (json.loads(base64.b64decode(line.split("<")[1].split(">")[0]))[1] for line in lines)
    assert f"has crashed (SIGSEGV), as libraries in C can, while it was reading {__file__}. Damaged input" in one
    assert "has crashed (SIGSEGV)" in other and __file__ not in other
    assert not list(tmp_path.glob("*.penstock-inputs"))


def test_a_worker_that_ends_normally_has_no_report(tmp_path: Path) -> None:
    """Each canceled job would leave a crash report."""
    told = told_of(tmp_path, "as it should", "as it should")
    assert (told.stdout, told.stderr) == ("nothing\nnothing\n", "\n\n")
    assert list(tmp_path.iterdir()) == []


def test_the_next_worker_of_a_slot_knows_how_the_former_one_has_ended(tmp_path: Path) -> None:
    """Spark starts a task again: the driver would see a broken connection instead of the function that broke it."""
    first, second, third = told_of(tmp_path, "exits", "as it should", "killed").stderr.splitlines()
    assert (first, third) == ("", "")
    assert second.startswith("the worker of level 1 slot 1, which runs 'orders', 'sum', ended itself with exit code 3")


def test_in_batched_mode_the_next_worker_does_not_report_a_lost_one(tmp_path: Path) -> None:
    """A task that Spark runs again would fail, where it repairs what has happened."""
    told = told_of(tmp_path, "killed", "as it should", mode="batched")
    assert told.stderr == "\n\n" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("status", "out_of_memory", "text"),
    [
        (9, True, "was killed by the kernel, which had run out of memory (SIGKILL)"),
        (9, False, "was killed from outside (SIGKILL; "),
        (15, True, "was killed from outside (SIGTERM; "),
        (6, True, "has crashed (SIGABRT)"),
        (11 | 0x80, False, "has crashed (SIGSEGV)"),
        (40, False, "signal 40"),
        (7 << 8, True, "exit code 7"),
    ],
)
def test_the_end_in_words(status: int, out_of_memory: bool, text: str) -> None:
    """A user would have to look up numbers, and would not think of memory."""
    assert text in describe_end(status, out_of_memory)


def test_assumption_forks_of_the_daemon() -> None:
    """Crash reports would disappear, and no error would be reported."""
    code = daemon.manager.__code__
    assert "sock" in code.co_varnames + code.co_cellvars
    assert {"os", "fork", "signal", "SIGCHLD", "SIG_IGN"} <= set(code.co_names)
