"""Planners that one program has after the other: who gets one, who returns it, and when it ends."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.hosts.spark.driver.jvm_lease import end_free_jvms
from penstock.table.planner.errors import PlannerError
from penstock.table.planner.jars import planner_directory
from penstock.table.planner.kept_planner import KeptPlanners
from penstock.table.planner.planner import Planner
from penstock.table.planner.planner_process import PlannerProcess
from penstock.table.planner.preparation import launch

Programs = Callable[..., PlannerProcess]


@pytest.fixture(scope="module")
def command() -> list[str]:
    try:
        return launch(planner_directory(os.environ), os.environ).full_command
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")


@pytest.fixture
def environ() -> Iterator[dict[str, str]]:
    """A cache whose path is short enough for sockets, and a secret of the program's."""
    path = tempfile.mkdtemp(prefix="kept")
    environ = {**os.environ, "XDG_CACHE_HOME": path, "DATABASE_PASSWORD": "hunter2"}
    yield environ
    end_free_jvms(environ)
    shutil.rmtree(path)


@pytest.fixture
def program(command: list[str], environ: dict[str, str]) -> Iterator[Programs]:
    """Programs, which share the processes that they return. Those that remain end with the test."""
    pids = set()

    def new(idle_s: int = 60) -> PlannerProcess:
        one = PlannerProcess(command, kept=KeptPlanners(command, environ, idle_s=idle_s))
        one.start()
        pids.add(one.pid)
        return one

    yield new
    for pid in pids:
        if pid is not None and (descriptor := opened(pid)) is not None:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            os.close(descriptor)


def opened(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def ends(pid: int | None, within_s: float = 10) -> bool:
    """Return whether the process ends within this time."""
    assert pid is not None
    if (descriptor := opened(pid)) is None:
        return True
    try:
        return bool(select.select([descriptor], [], [], within_s)[0])
    finally:
        os.close(descriptor)


def returned(process: PlannerProcess, environ: dict[str, str]) -> Path:
    """Return the process, and the socket at which it then listens."""
    pid = process.pid
    process.close()
    while not (found := list(Path(environ["XDG_CACHE_HOME"]).glob(f"penstock/jvms/*/{pid}.sock"))):
        threading.Event().wait(0.01)
    return found[0]


def directory_of(environ: dict[str, str]) -> Path:
    """Return the directory of the sockets."""
    (directory,) = Path(environ["XDG_CACHE_HOME"]).glob("penstock/jvms/*")
    return directory


def test_the_next_program_has_the_same_process(program: Programs, environ: dict[str, str]) -> None:
    """Each program would wait for a JVM, or see the tables of another one."""
    first = program()
    pid = first.pid
    Planner(process=first).execute("CREATE TABLE t (a INT) WITH ('connector' = 'any')")
    returned(first, environ)
    second = program()
    assert second.pid == pid
    assert Planner(process=second).execute("SHOW TABLES").rows == ()
    returned(second, environ)
    third = Planner({"table.local-time-zone": "Asia/Tokyo"}, program())
    third.execute("CREATE TABLE t (a INT) WITH ('connector' = 'other')")
    found = third.execute("SELECT a + 1 FROM t").plan
    assert found is not None
    assert "'other'" not in found.text and '"other"' in found.text


def test_two_programs_have_two_processes(program: Programs, environ: dict[str, str]) -> None:
    """One program would wait for the statements of the other."""
    first, second = program(), program()
    assert first.pid != second.pid
    returned(first, environ)
    assert second.pid is not None


def test_others_can_not_connect(program: Programs, environ: dict[str, str]) -> None:
    """Other users would plan with it, and read what is planned."""
    first = program()
    path = returned(first, environ)
    token = path.with_suffix(".token")
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, token, path.parent)] == [0o600, 0o600, 0o700]
    value = token.read_text()
    second = program()
    assert not path.exists() and not token.exists()
    returned(second, environ)
    assert token.read_text() != value


def test_a_wrong_token_ends_it(program: Programs, environ: dict[str, str]) -> None:
    """Who can open the socket, but not read the file beside it, would plan with it."""
    first = program()
    pid = first.pid
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(returned(first, environ)))
        connection.sendall(b'{"token": "wrong", "pid": 1}\n{"operation": "open", "options": {}, "environment": "1"}\n')
        answers = connection.makefile("rb")
        assert answers.readline() == b'{"pid": %d}\n' % (pid or 0)
        assert answers.readline() == b""
    assert ends(pid)


def test_it_has_nothing_of_its_first_program(program: Programs, environ: dict[str, str]) -> None:
    """Secrets in the environment of a program would stay for minutes after its end."""
    kept = program()
    file = Path(f"/proc/{kept.pid}/environ")
    # Between the start of a program and what the kernel tells of its memory the file is empty.
    while not file.read_bytes():
        time.sleep(0.01)
    variables = file.read_bytes()
    assert b"HOME=" in variables
    assert b"hunter2" not in variables
    assert Path(f"/proc/{kept.pid}/cwd").resolve() == directory_of(environ).resolve()


def test_end_sessions_ends_it(program: Programs, environ: dict[str, str]) -> None:
    """Its memory could not be freed."""
    kept = program()
    pid = kept.pid
    returned(kept, environ)
    assert end_free_jvms(environ) == 1
    assert ends(pid)


def test_it_ends_when_no_program_comes(program: Programs, environ: dict[str, str]) -> None:
    """It would stay for ever."""
    kept = program(idle_s=0)
    pid = kept.pid
    kept.close()
    assert ends(pid)
    assert list(directory_of(environ).iterdir()) == []


def test_it_ends_with_a_program_that_is_killed(command: list[str], environ: dict[str, str]) -> None:
    """It would plan on for a program that is gone."""
    text = f"""
import os, time
from penstock.table.planner.kept_planner import KeptPlanners
from penstock.table.planner.planner_process import PlannerProcess
kept = KeptPlanners({command!r}, os.environ)
process = PlannerProcess({command!r}, kept=kept)
process.start()
first = process.pid
if {{again}}:
    process.close()
    while not (kept.directory / f"{{{{first}}}}.sock").exists():
        time.sleep(0.01)
    process.start()
    assert process.pid == first
print(process.pid, flush=True)
time.sleep(60)
"""
    for again in (False, True):  # it started the process, or connected to it
        with subprocess.Popen(
            [sys.executable, "-c", text.format(again=again)], stdout=subprocess.PIPE, text=True, env=environ
        ) as started:
            assert started.stdout is not None
            pid = int(started.stdout.readline())
            started.kill()
        assert ends(pid)


@pytest.mark.parametrize("is_taken_over", [False, True])
def test_a_statement_that_takes_too_long(program: Programs, environ: dict[str, str], is_taken_over: bool) -> None:
    """A plan that never ends would hold this program, and then the next one."""
    if is_taken_over:
        returned(program(), environ)
    kept = program()
    planner = Planner(process=kept)
    planner.execute("CREATE TABLE t (a INT) WITH ('connector' = 'any')")
    pid = kept.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    while not all(") T " in task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/stat")):
        threading.Event().wait(0.01)
    kept.timeout_s = 0.2
    with pytest.raises(PlannerError, match=r"did not answer within 0\.2 s"):
        planner.execute("SHOW TABLES")
    assert ends(pid)
    kept.timeout_s = 60
    assert planner.execute("SHOW TABLES").rows == (("t",),)
    assert kept.pid != pid


def test_a_socket_that_a_killed_process_left(program: Programs, environ: dict[str, str]) -> None:
    """Programs would not start a planner any more."""
    kept = program()
    pid = kept.pid
    path = returned(kept, environ)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert ends(pid)
    assert path.exists()
    assert program().pid not in (None, pid)
    assert not path.exists()


def test_no_more_than_two_stay(program: Programs, environ: dict[str, str]) -> None:
    """Programs that run at the same time would leave a process each."""
    three = [program() for _ in range(3)]
    pids = [one.pid for one in three]
    for one in three[:2]:
        one.close()
    directory = directory_of(environ)
    while len(list(directory.glob("*.sock"))) < 2:
        threading.Event().wait(0.01)
    three[2].close()
    assert ends(pids[2])
    assert [ends(pid, within_s=0) for pid in pids[:2]] == [False, False]
