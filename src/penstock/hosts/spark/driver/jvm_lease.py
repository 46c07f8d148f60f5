"""JVMs that several programs use, one after the other: at a terminal, in a notebook, or with `--keep-session`.

Most of a job's start is the start of the JVM, which loads and compiles Spark. Such a program leases a JVM that another
program has used, creates its own Spark session there, and returns the JVM when it ends.

For each kind of JVM (penstock, Spark, Java, options) the user's cache has a directory that only the user can read. The
keeper of a free JVM listens at a socket there (`jvm_keeper.py`). A program that connects has the JVM as long as the
connection is open, and the keeper removes the socket for that time. A program that finds no socket starts a keeper.
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
from typing import Any

import msgspec

from penstock.common.files.cache_directory import cache_directory
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.hosts.spark.job_files import WORKING_DIRECTORY

RETURNED = b"returned\n"
"""The message of a program at its end. A program that ends without it was killed, and its job still runs in the JVM."""
DEFAULT_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
"""Java options of ours: a program's spark.driver.extraJavaOptions come after them, and override them."""
_DIRECTORY = "jvms"
_PATH_BYTES_MAX = 100
"""Maximum length of the path of a socket, on all operating systems (bytes)."""
_ANSWER_TIMEOUT_S = 5.0
_START_TIMEOUT_S = 120.0
_log = logging.getLogger(__name__)


class JvmRequest(msgspec.Struct, frozen=True):
    """The JVM that a program needs: Spark's settings for its start, and JAVA_HOME."""

    settings: dict[str, str]
    java_home: str
    archive_options: str = ""
    """Java options with which a new JVM uses the class archive. A JVM that started without it fits, too."""

    @property
    def settings_at_start(self) -> dict[str, str]:
        """Return Spark's settings for a new JVM."""
        options = f"{self.settings.get(DEFAULT_JAVA_OPTIONS, '')} {self.archive_options}".strip()
        return {**self.settings, DEFAULT_JAVA_OPTIONS: options} if options else self.settings


class Lease(msgspec.Struct, frozen=True):
    """The keeper's answer to a program: the address of the JVM for Py4J, its process, and its log."""

    port: int
    secret: str
    pid: int
    log: str


class JvmProcess:
    """Replace PySpark's `gateway.proc` for a JVM that is not a child of this process. Can be passed to `select`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def fileno(self) -> int:
        """Return a file descriptor that is readable when the process has ended."""
        return self._descriptor

    def resident_bytes(self) -> int:
        """Return its memory, or 0 if that is unknown."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE")
        return 0

    def wait(self, timeout: float | None = None) -> int:
        """Wait at most `timeout` seconds for its end. Raises subprocess.TimeoutExpired.

        Returns 0, since the exit code is unknown.
        """
        if not select.select([self], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("java", timeout or 0)
        return 0


class LeasedJvm:
    """A JVM that this program has until it returns it, or ends."""

    def __init__(self, connection: socket.socket, lease: Lease, is_new: bool = False) -> None:
        self._connection = connection
        self.is_new = is_new
        """Whether it was started for this program."""
        self.log = lease.log
        self.environment = {"PYSPARK_GATEWAY_PORT": str(lease.port), "PYSPARK_GATEWAY_SECRET": lease.secret}
        """Environment variables with which PySpark connects to this JVM instead of starting one."""
        self.process = JvmProcess(lease.pid)

    def release(self) -> None:
        """Return the JVM to its keeper, which stops the session. No job may run in it."""
        with contextlib.suppress(OSError):
            self._connection.sendall(RETURNED)
        self._connection.close()

    def discard(self) -> None:
        """Close the connection, so that the keeper ends the JVM."""
        self._connection.close()


def lease_jvm(request: JvmRequest, environ: Mapping[str, str]) -> LeasedJvm | None:
    """Return a free JVM, or a new one, which takes seconds. Returns None, after a warning, if that fails.

    Raises nothing: without a leased JVM, a program starts its own.
    """
    try:
        directory = keeper_directory(request, environ)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in free_sockets(directory):
            if (leased := _connect(path)) is not None:
                return leased
        return _start(directory, request)
    except (OSError, ValueError, *DECODING_ERRORS, AttributeError) as error:
        # AttributeError: on systems other than Linux, `os` has no pidfd_open.
        _log.warning("cannot keep the session: %s: %s", type(error).__name__, error)
        return None


def end_free_jvms(environ: Mapping[str, str]) -> int:
    """End all free JVMs, and return their number."""
    ended = 0
    for directory in (cache_directory(environ) / _DIRECTORY).glob("*"):
        for path in free_sockets(directory):
            with contextlib.suppress(OSError, *DECODING_ERRORS), socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                # The keeper ends a JVM that is not returned.
                ended += bool(_receive(connection, _ANSWER_TIMEOUT_S))
    return ended


def free_sockets(directory: Path) -> Iterator[Path]:
    """Return the sockets of keepers with a free JVM. May include sockets of killed keepers."""
    return iter(sorted(directory.glob("*.sock")))


def environment_of_workers(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of Python workers. Without it they would have that of the JVM, which is not this one."""
    copied = {name: value for name, value in environ.items() if not name.startswith(("PYSPARK_GATEWAY", "_PYSPARK"))}
    return {**copied, WORKING_DIRECTORY: str(Path.cwd())}


def keeper_directory(request: JvmRequest, environ: Mapping[str, str]) -> Path:
    """Return the directory for sockets of keepers whose JVMs fit. Raises ValueError if its path is too long."""
    import pyspark

    variables = sorted((name, value) for name, value in environ.items() if name.startswith("SPARK_"))
    settings = sorted(request.settings.items())
    return kept_directory(
        [__file__, sys.executable, pyspark.__version__, request.java_home, settings, variables], environ
    )


def kept_directory(kind: list[Any], environ: Mapping[str, str]) -> Path:
    """Return the directory for sockets of free JVMs of a kind. Raises ValueError if its path is too long.

    `end_free_jvms` ends all that listen in such directories: they send a line to who connects, and end if the
    connection ends and they were not returned.
    """
    directory = cache_directory(environ) / _DIRECTORY / hashlib.sha256(msgspec.json.encode(kind)).hexdigest()[:12]
    if len(os.fsencode(directory / "4194304.sock")) > _PATH_BYTES_MAX:
        raise ValueError(f"{directory} is too long for the path of a socket: set XDG_CACHE_HOME to a shorter path")
    return directory


def _connect(path: Path) -> LeasedJvm | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        # The keeper was killed, or has just given the JVM to another program.
        connection.close()
        path.unlink(missing_ok=True)
        return None
    return _receive_lease(connection, _ANSWER_TIMEOUT_S)


def _receive_lease(connection: socket.socket, timeout_s: float, is_new: bool = False) -> LeasedJvm | None:
    with contextlib.suppress(OSError):
        if answer := _receive(connection, timeout_s):
            return LeasedJvm(connection, from_json(answer, Lease), is_new)
    connection.close()
    return None


def _receive(connection: socket.socket, timeout_s: float) -> bytes:
    """Return a line, or nothing if the keeper has given the JVM to another program, or has ended."""
    connection.settimeout(timeout_s)
    answer = connection.makefile("rb").readline()
    connection.settimeout(None)
    return answer


def _start(directory: Path, request: JvmRequest) -> LeasedJvm | None:
    connection, keeper_end = socket.socketpair()
    with keeper_end, (directory / "keeper.log").open("wb") as log:
        subprocess.Popen(
            [sys.executable, "-m", "penstock.hosts.spark.driver.jvm_keeper", str(directory), str(keeper_end.fileno())],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[keeper_end.fileno()], start_new_session=True,
        )  # fmt: skip
    connection.sendall(msgspec.json.encode(request) + b"\n")
    leased = _receive_lease(connection, _START_TIMEOUT_S, is_new=True)
    if leased is None:
        _log.warning("cannot keep the session: a JVM did not start. See %s", directory / "keeper.log")
    return leased
