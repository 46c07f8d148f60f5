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
from penstock.hosts.spark.driver.kept_jvm import (
    KeptJvm,
    Wanted,
    directory_of,
    end_free,
    environment_of_workers,
    free_in,
    lease,
)

WANTED = Wanted({"spark.master": "local[2]"}, "/java")


class Jvm:
    """What the keeper keeps. `stops`: how often it was cleaned between two programs."""

    port, secret = 4242, "secret"

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "1000"])
        self.pid = self.process.pid
        self.stops = 0

    def stop_context(self) -> None:
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
    path = directory_of(WANTED, environ)
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
    while not list(free_in(directory)):
        threading.Event().wait(0.01)


def leased(environ: dict[str, str]) -> KeptJvm:
    kept = lease(WANTED, environ)
    assert kept is not None
    return kept


def test_a_program_gets_the_jvm_that_another_one_has_returned(
    keeping: Keeping, directory: Path, environ: dict[str, str]
) -> None:
    """Each program would wait for a JVM of its own."""
    keeping.first_returns(directory)
    kept = leased(environ)
    assert kept.environment == {"PYSPARK_GATEWAY_PORT": "4242", "PYSPARK_GATEWAY_SECRET": "secret"}
    assert kept.process.pid == keeping.jvm.pid and keeping.jvm.stops == 1
    assert not list(free_in(directory)), "nobody else gets it meanwhile"
    kept.give_back()
    until_free(directory)
    assert keeping.jvm.stops == 2, "what a program has left is stopped before the next one comes"


def test_a_jvm_that_has_just_become_free_is_taken(keeping: Keeping, directory: Path, environ: dict[str, str]) -> None:
    """A program that comes in the moment would take its keeper for one that was killed, and so would all after it."""
    keeping.first_returns(directory)
    for _ in range(300):
        kept = leased(environ)
        kept.give_back()
        # Without a pause: it is taken as soon as it is seen.
        while not list(free_in(directory)):
            pass


def test_a_program_that_ends_without_returning_it_ends_the_jvm(
    keeping: Keeping, directory: Path, environ: dict[str, str]
) -> None:
    """The job of a program that was killed would go on in the session of the next one."""
    keeping.first.close()
    keeping.ends()
    assert not list(free_in(directory)) and keeping.jvm.stops == 0


def test_a_jvm_that_dies_is_not_lent(keeping: Keeping, directory: Path) -> None:
    """The next program would fail with a broken connection to Py4J."""
    keeping.first_returns(directory)
    keeping.jvm.end()
    keeping.ends()
    assert not list(free_in(directory))


def test_who_has_a_jvm_learns_that_it_has_ended(keeping: Keeping, directory: Path, environ: dict[str, str]) -> None:
    """A job would wait for a session that is gone."""
    keeping.first_returns(directory)
    kept = leased(environ)
    with pytest.raises(subprocess.TimeoutExpired):
        kept.process.wait(0.01)
    keeping.jvm.end()
    assert kept.process.wait() == 0
    kept.give_back()


def test_those_that_are_free_can_be_ended(keeping: Keeping, directory: Path, environ: dict[str, str]) -> None:
    """They would hold a gigabyte for ten minutes after a test run."""
    keeping.first_returns(directory)
    assert end_free(environ) == 1
    keeping.ends()
    assert end_free(environ) == 0


def test_enough_are_free(directory: Path) -> None:
    """Programs that ran side by side would leave a JVM each."""
    for number in range(FREE_MAX):
        (directory / f"{number}.sock").touch()
    keeping = Keeping(directory)
    keeping.first.sendall(b"returned\n")
    keeping.first.close()
    keeping.ends()
    keeping.jvm.end()
    assert len(list(free_in(directory))) == FREE_MAX


def test_the_socket_of_a_keeper_that_was_killed_is_passed_over(
    keeping: Keeping, directory: Path, environ: dict[str, str]
) -> None:
    """No program would get a JVM until somebody cleans up."""
    keeping.first_returns(directory)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(directory / "0.sock"))
    assert len(list(free_in(directory))) == 2
    kept = leased(environ)
    assert kept.process.pid == keeping.jvm.pid
    kept.give_back()
    assert not (directory / "0.sock").exists()


def test_a_cache_with_a_long_path_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """The program would fail where it could do with a JVM of its own."""
    assert lease(WANTED, {"XDG_CACHE_HOME": "/tmp/" + "x" * 100}) is None
    assert any("too long for the path of a socket" in message for message in caplog.messages)


def test_programs_with_other_settings_get_other_jvms(environ: dict[str, str]) -> None:
    """A job would run with the memory, the master or the Java of another one."""
    kinds = [WANTED, Wanted({"spark.master": "local[4]"}, "/java"), Wanted(WANTED.settings, "/java-21")]
    directories = {directory_of(wanted, environ) for wanted in kinds}
    directories.add(directory_of(WANTED, {**environ, "SPARK_SUBMIT_OPTS": "-Xmx1g"}))
    assert len(directories) == 4
    assert directory_of(WANTED, {**environ, "EDITOR": "vi"}) in directories


def test_workers_get_the_environment_of_their_program() -> None:
    """A function would see the variables of a program that used the JVM before, or its key."""
    environment = environment_of_workers({"MINE": "1", "PYSPARK_GATEWAY_SECRET": "secret", "_PYSPARK_DRIVER": "x"})
    assert environment["MINE"] == "1" and str(Path.cwd()) in environment.values()
    assert not any("PYSPARK" in name for name in environment)
