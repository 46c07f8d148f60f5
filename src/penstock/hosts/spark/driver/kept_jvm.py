"""JVMs that outlive the programs which use them, one after the other: `penstock run --keep-session`.

Most of a job's start is the JVM's: loading and compiling what Spark consists of. A program that asks for it gets a JVM
which another one has used, makes its own Spark session there, and gives the JVM back when it ends.

For each kind of JVM (penstock, Spark, Java, options) there is a directory in the user's cache, readable by the user
alone. There the keeper of a JVM that is free listens at a socket (`jvm_keeper.py`). Who connects has the JVM as long as
the connection is open; the socket is gone meanwhile. A program that finds none starts a keeper.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from penstock.common.errors.unreadable import UNREADABLE
from penstock.common.files.cache_directory import cache_directory
from penstock.common.values.decoding import from_json
from penstock.hosts.spark.job_files import WORKING_DIRECTORY

RETURNED = b"returned\n"
"""What a program says at its end. One that ends without it was killed, and leaves its job behind in the JVM."""
_DIRECTORY = "jvms"
_LONGEST_PATH = 100
"""Bytes that the path of a socket may have, on all systems."""
_ANSWER_S = 5.0
_START_S = 120.0
_log = logging.getLogger(__name__)


class Wanted(msgspec.Struct, frozen=True):
    """What a program tells the keeper that it starts: settings of Spark with which the JVM starts, and its home."""

    settings: dict[str, str]
    java_home: str


class Lease(msgspec.Struct, frozen=True):
    """What a program is told that gets a JVM: where Py4J finds it, its process, and its log."""

    port: int
    secret: str
    pid: int
    log: str


class JvmProcess:
    """A JVM that may be no child of this process, by what PySpark's `gateway.proc` is used for. `select` knows it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def fileno(self) -> int:
        """Readable when the process has ended."""
        return self._descriptor

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, for so many seconds. Raises subprocess.TimeoutExpired. How it ended is not known: 0."""
        if not select.select([self], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("java", timeout or 0)
        return 0


class KeptJvm:
    """A JVM that this program has until it gives it back, or ends."""

    def __init__(self, connection: socket.socket, lease: Lease) -> None:
        self._connection = connection
        self.log = lease.log
        self.environment = {"PYSPARK_GATEWAY_PORT": str(lease.port), "PYSPARK_GATEWAY_SECRET": lease.secret}
        """With these PySpark uses the JVM, and starts none."""
        self.process = JvmProcess(lease.pid)

    def give_back(self) -> None:
        """Let another program have it. The keeper stops the session; nothing may run in it any more."""
        with contextlib.suppress(OSError):
            self._connection.sendall(RETURNED)
        self._connection.close()

    def drop(self) -> None:
        """Go without it: the keeper ends it."""
        self._connection.close()


def lease(wanted: Wanted, environ: Mapping[str, str]) -> KeptJvm | None:
    """A JVM that is free, or a new one, which takes seconds. None, with a warning: it can't be had.

    Raises nothing: without it a program starts a JVM of its own.
    """
    try:
        directory = directory_of(wanted, environ)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in free_in(directory):
            if (kept := _connect(path)) is not None:
                return kept
        return _start(directory, wanted)
    except (OSError, ValueError, *UNREADABLE, AttributeError) as error:
        # Without pidfd_open, on systems other than Linux: AttributeError.
        _log.warning("no session is kept: %s: %s", type(error).__name__, error)
        return None


def end_free(environ: Mapping[str, str]) -> int:
    """End all JVMs that are free. How many there were."""
    ended = 0
    for directory in (cache_directory(environ) / _DIRECTORY).glob("*"):
        for path in free_in(directory):
            with contextlib.suppress(OSError, *UNREADABLE), socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                # One that is not returned is ended.
                ended += bool(_receive(connection, _ANSWER_S))
    return ended


def free_in(directory: Path) -> Iterator[Path]:
    """The sockets of keepers whose JVM is free, and of some that were killed."""
    return iter(sorted(directory.glob("*.sock")))


def environment_of_workers(environ: Mapping[str, str]) -> dict[str, str]:
    """What Python workers need of this process's environment: the JVM that starts them has that of another one."""
    kept = {name: value for name, value in environ.items() if not name.startswith(("PYSPARK_GATEWAY", "_PYSPARK"))}
    return {**kept, WORKING_DIRECTORY: str(Path.cwd())}


def directory_of(wanted: Wanted, environ: Mapping[str, str]) -> Path:
    """Where the keepers of such JVMs listen. Raises ValueError: its path is too long for sockets."""
    import pyspark

    of_spark = sorted((name, value) for name, value in environ.items() if name.startswith("SPARK_"))
    kind = [__file__, sys.executable, pyspark.__version__, wanted.java_home, sorted(wanted.settings.items()), of_spark]
    directory = cache_directory(environ) / _DIRECTORY / hashlib.sha256(msgspec.json.encode(kind)).hexdigest()[:12]
    if len(os.fsencode(directory / "4194304.sock")) > _LONGEST_PATH:
        raise ValueError(f"{directory} is too long for the path of a socket: set XDG_CACHE_HOME to a shorter one")
    return directory


def _connect(path: Path) -> KeptJvm | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        # Its keeper was killed, or has just given the JVM to another program.
        connection.close()
        path.unlink(missing_ok=True)
        return None
    return _leased(connection, _ANSWER_S)


def _leased(connection: socket.socket, within_s: float) -> KeptJvm | None:
    with contextlib.suppress(OSError):
        if answer := _receive(connection, within_s):
            return KeptJvm(connection, from_json(answer, Lease))
    connection.close()
    return None


def _receive(connection: socket.socket, within_s: float) -> bytes:
    """A line; nothing: the keeper gives the JVM to another program, or ends."""
    connection.settimeout(within_s)
    answer = connection.makefile("rb").readline()
    connection.settimeout(None)
    return answer


def _start(directory: Path, wanted: Wanted) -> KeptJvm | None:
    ours, theirs = socket.socketpair()
    with theirs, (directory / "keeper.log").open("wb") as log:
        subprocess.Popen(
            [sys.executable, "-m", "penstock.hosts.spark.driver.jvm_keeper", str(directory), str(theirs.fileno())],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[theirs.fileno()], start_new_session=True,
        )  # fmt: skip
    ours.sendall(msgspec.json.encode(wanted) + b"\n")
    kept = _leased(ours, _START_S)
    if kept is None:
        _log.warning("no session is kept: a JVM did not start. See %s", directory / "keeper.log")
    return kept
