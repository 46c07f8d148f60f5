"""JVMs that programs have one after the other: who gets one, who gives it back, and when it ends.

The keeper is the real one; its JVM is a process that sleeps.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.hosts.spark.driver.jvm_keeper import FREE_MAX, Keeper
from penstock.hosts.spark.driver.jvm_lease import (
    DEFAULT_JAVA_OPTIONS,
    JvmRequest,
    LeasedJvm,
    end_free_jvms,
    environment_of_workers,
    free_sockets,
    keeper_directory,
    lease_jvm,
)

REQUEST = JvmRequest({"spark.master": "local[2]"}, "/java")


class Jvm:
    """The JVM of a keeper. `stops`: how often its context was stopped between two programs."""

    port, secret = 4242, "secret"

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "1000"])
        self.pid = self.process.pid
        self.stops = 0
        self.may_stop = threading.Event()
        self.may_stop.set()

    def stop_context(self) -> None:
        self.may_stop.wait()
        self.stops += 1

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Keeping:
    """A keeper in a thread, whose first program has just connected."""

    def __init__(self, directory: Path) -> None:
        self.jvm = Jvm()
        self.first, theirs = socket.socketpair()
        keeper = Keeper(directory, self.jvm, directory / "jvm.log")
        self._thread = threading.Thread(target=keeper.serve, args=(theirs,), daemon=True)
        self._thread.start()
        assert b"4242" in self.first.makefile("rb").readline()

    def first_returns(self, directory: Path) -> None:
        """The first program has ended, and the JVM is free."""
        self.first.sendall(b"returned\n")
        self.first.close()
        until_free(directory)

    def ends(self) -> None:
        """The keeper ends by itself."""
        self._thread.join()


@pytest.fixture
def environ() -> Iterator[dict[str, str]]:
    """A cache whose path is short enough for sockets."""
    path = tempfile.mkdtemp(prefix="kept")
    yield {"XDG_CACHE_HOME": path}
    shutil.rmtree(path)


@pytest.fixture
def directory(environ: dict[str, str]) -> Path:
    path = keeper_directory(REQUEST, environ)
    path.mkdir(parents=True)
    return path


@pytest.fixture
def keeping(directory: Path) -> Iterator[Keeping]:
    keeping = Keeping(directory)
    yield keeping
    keeping.jvm.end()
    keeping.ends()


def until_free(directory: Path) -> None:
    """The keeper listens again."""
    while not list(free_sockets(directory)):
        threading.Event().wait(0.01)


def leased(environ: dict[str, str]) -> LeasedJvm:
    jvm = lease_jvm(REQUEST, environ)
    assert jvm is not None
    return jvm


def test_a_program_gets_the_jvm_that_another_one_has_returned(
    keeping: Keeping, directory: Path, environ: dict[str, str]
) -> None:
    """Each program would wait for a JVM of its own."""
    keeping.first_returns(directory)
    jvm = leased(environ)
    assert jvm.environment == {"PYSPARK_GATEWAY_PORT": "4242", "PYSPARK_GATEWAY_SECRET": "secret"}
    assert jvm.process.pid == keeping.jvm.pid and keeping.jvm.stops == 1
    assert not list(free_sockets(directory)), "no other program gets it at the same time"
    jvm.release()
    until_free(directory)
    # Held while it is counted: after its return the keeper stops the context once more.
    third = leased(environ)
    assert keeping.jvm.stops == 2, "what a program has left is stopped before the next one comes"
    third.release()


def test_a_program_that_comes_while_the_session_of_the_last_one_stops_waits_for_the_jvm(
    keeping: Keeping, directory: Path, environ: dict[str, str]
) -> None:
    """Each second program of a shell script would start a JVM of its own, which takes ten seconds."""
    keeping.jvm.may_stop.clear()
    keeping.first_returns(directory)
    threading.Timer(0.1, keeping.jvm.may_stop.set).start()
    jvm = leased(environ)
    assert jvm.process.pid == keeping.jvm.pid and not jvm.is_new and keeping.jvm.stops == 1
    jvm.release()


def test_a_jvm_that_has_just_become_free_is_leased(keeping: Keeping, directory: Path, environ: dict[str, str]) -> None:
    """A program that comes in the moment would take its keeper for one that was killed, and so would all after it."""
    keeping.first_returns(directory)
    for _ in range(300):
        jvm = leased(environ)
        jvm.release()
        # Without a pause: it is taken as soon as it is seen.
        while not list(free_sockets(directory)):
            pass


def test_a_program_that_ends_without_returning_it_ends_the_jvm(
    keeping: Keeping, directory: Path, environ: dict[str, str]
) -> None:
    """The job of a killed program would continue to run in the JVM of the next one."""
    keeping.first.close()
    keeping.ends()
    assert not list(free_sockets(directory)) and keeping.jvm.stops == 0


def test_a_jvm_that_dies_is_not_lent(keeping: Keeping, directory: Path) -> None:
    """The next program would fail with a broken connection to Py4J."""
    keeping.first_returns(directory)
    keeping.jvm.end()
    keeping.ends()
    assert not list(free_sockets(directory))


def test_a_program_learns_that_its_jvm_has_ended(keeping: Keeping, directory: Path, environ: dict[str, str]) -> None:
    """A job would wait for a session that is gone."""
    keeping.first_returns(directory)
    jvm = leased(environ)
    with pytest.raises(subprocess.TimeoutExpired):
        jvm.process.wait(0.01)
    keeping.jvm.end()
    assert jvm.process.wait() == 0
    jvm.release()


def test_those_that_are_free_can_be_ended(keeping: Keeping, directory: Path, environ: dict[str, str]) -> None:
    """They would hold a gigabyte for ten minutes after a test run."""
    keeping.first_returns(directory)
    assert end_free_jvms(environ) == 1
    keeping.ends()
    assert end_free_jvms(environ) == 0


def test_enough_are_free(directory: Path) -> None:
    """Programs that ran side by side would leave a JVM each."""
    for number in range(FREE_MAX):
        (directory / f"{number}.sock").touch()
    keeping = Keeping(directory)
    keeping.first.sendall(b"returned\n")
    keeping.first.close()
    keeping.ends()
    keeping.jvm.end()
    assert len(list(free_sockets(directory))) == FREE_MAX


def test_the_socket_of_a_killed_keeper_is_skipped(keeping: Keeping, directory: Path, environ: dict[str, str]) -> None:
    """No program would get a JVM until a user deletes the socket."""
    keeping.first_returns(directory)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(directory / "0.sock"))
    assert len(list(free_sockets(directory))) == 2
    jvm = leased(environ)
    assert jvm.process.pid == keeping.jvm.pid
    jvm.release()
    assert not (directory / "0.sock").exists()


def test_a_cache_with_a_long_path_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """The program would fail where it could do with a JVM of its own."""
    assert lease_jvm(REQUEST, {"XDG_CACHE_HOME": "/tmp/" + "x" * 100}) is None
    assert any("too long for the path of a socket" in message for message in caplog.messages)


def test_programs_with_other_settings_get_other_jvms(environ: dict[str, str]) -> None:
    """A job would run with the memory, the master or the Java of another one."""
    kinds = [REQUEST, JvmRequest({"spark.master": "local[4]"}, "/java"), JvmRequest(REQUEST.settings, "/java-21")]
    directories = {keeper_directory(wanted, environ) for wanted in kinds}
    directories.add(keeper_directory(REQUEST, {**environ, "SPARK_SUBMIT_OPTS": "-Xmx1g"}))
    assert len(directories) == 4
    assert keeper_directory(REQUEST, {**environ, "EDITOR": "vi"}) in directories


def test_workers_get_the_environment_of_their_program() -> None:
    """A function would see the variables of a program that used the JVM before, or its key."""
    environment = environment_of_workers({"MINE": "1", "PYSPARK_GATEWAY_SECRET": "secret", "_PYSPARK_DRIVER": "x"})
    assert environment["MINE"] == "1" and str(Path.cwd()) in environment.values()
    assert not any("PYSPARK" in name for name in environment)


def test_a_jvm_without_the_archive_fits_a_program_that_has_it(environ: dict[str, str]) -> None:
    """The archive is made after the first program: the second one would start a JVM, though one is kept."""
    with_archive = JvmRequest(REQUEST.settings, "/java", "-XX:SharedArchiveFile=/cache/classes.jsa")

    assert keeper_directory(with_archive, environ) == keeper_directory(REQUEST, environ)
    assert REQUEST.settings_at_start == REQUEST.settings
    assert with_archive.settings_at_start[DEFAULT_JAVA_OPTIONS] == "-XX:SharedArchiveFile=/cache/classes.jsa"
    given = JvmRequest({DEFAULT_JAVA_OPTIONS: "-Xmx1g"}, "/java", "-XX:a")
    assert given.settings_at_start == {DEFAULT_JAVA_OPTIONS: "-Xmx1g -XX:a"}
