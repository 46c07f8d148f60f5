"""The process that keeps one JVM: `python -m penstock.hosts.spark.driver.jvm_keeper DIRECTORY DESCRIPTOR`.

The program that starts the keeper is the first one to have the JVM, by the socket DESCRIPTOR; later programs connect to
a socket in DIRECTORY (`jvm_lease.py`). Between two programs the keeper stops the session of the first one. The keeper
ends, with its JVM, if no program connects for ten minutes, if enough other JVMs are free, or if a program ends without
returning the JVM: it was killed, and its job still runs there.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, Protocol

import msgspec

from penstock.common.values.decoding import from_json
from penstock.hosts.spark.driver.jvm_lease import RETURNED, JvmProcess, JvmRequest, Lease, free_sockets
from penstock.hosts.spark.internals.jvm_start import StartedJvm

IDLE_S = 600.0
FREE_MAX = 2
_STOP_TIMEOUT_S = 10.0
_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "USER", "XDG_CACHE_HOME")
_LOG_BYTES = 1 << 20
_LOG_RETENTION_S = 7 * 24 * 3600.0


def main() -> None:
    """Start the JVM that the first program requests, then serve."""
    directory, first = Path(sys.argv[1]), socket.socket(fileno=int(sys.argv[2]))
    request = from_json(first.makefile("rb").readline(), JvmRequest)
    # A working directory for this keeper only, since Spark writes there. It stays for a while after the keeper's end:
    # programs link to the log in it.
    _remove_old(directory)
    working_directory = directory / str(os.getpid())
    working_directory.mkdir(mode=0o700, exist_ok=True)
    os.chdir(working_directory)
    log = working_directory / "jvm.log"
    _clear_environment()
    os.environ.update(JAVA_HOME=request.java_home, PENSTOCK_JVM_LOG=str(log), PENSTOCK_JVM_LOG_BYTES=str(_LOG_BYTES))
    os.environ["PENSTOCK_JVM_LOG_MAX"] = "2"
    jvm = StartedJvm(request.settings_at_start)
    try:
        Keeper(directory, jvm, log).serve(first)
    finally:
        jvm.end()


def _remove_old(directory: Path) -> None:
    for keeper in directory.glob("[0-9]*/"):
        with contextlib.suppress(OSError):
            if time.time() - max(path.stat().st_mtime for path in (keeper, *keeper.iterdir())) > _LOG_RETENTION_S:
                shutil.rmtree(keeper)


def _clear_environment() -> None:
    """Remove the first program's variables: workers of later programs would see them in addition to their own."""
    for name in list(os.environ):
        if name not in _INHERITED and not name.startswith("SPARK_"):
            del os.environ[name]


class KeptProcess(Protocol):
    """The interface of a JVM that its keeper uses: see hosts/spark/internals/jvm_start.py."""

    pid: int
    port: int
    secret: str

    def stop_context(self) -> None:
        """Stop the Spark context of the last program."""


class Keeper:
    """Lend one JVM to programs, one after the other; `serve` gets the connection of the first one."""

    def __init__(self, directory: Path, jvm: KeptProcess, log: Path) -> None:
        self._directory = directory
        self._started = jvm
        self._process = JvmProcess(jvm.pid)
        self._lease = msgspec.json.encode(Lease(jvm.port, jvm.secret, jvm.pid, str(log))) + b"\n"

    def serve(self, program: socket.socket | None) -> None:
        """Lend the JVM to one program after the other."""
        while program is not None:
            with program:
                if not self._is_returned_by(program):
                    return
            program = self._next()

    def _is_returned_by(self, program: socket.socket) -> bool:
        with contextlib.suppress(OSError):
            program.sendall(self._lease)
            received = b""
            while self._process not in _ready(program, self._process):
                if not (data := program.recv(len(RETURNED))):
                    return received == RETURNED
                received += data
        return False

    def _stop_session(self) -> bool:
        """Stop the session of the last program. Returns False if that failed, or took too long."""
        stopped = threading.Event()

        def stop() -> None:
            self._started.stop_context()
            stopped.set()

        threading.Thread(target=stop, name="stop", daemon=True).start()
        return stopped.wait(_STOP_TIMEOUT_S)

    def _next(self) -> socket.socket | None:
        """Stop the session of the last program, and return the connection of the next one.

        Returns None if the JVM ends, or if it is not needed. The socket is there from the beginning: a program that
        comes while the session stops, such as the next one of a script, waits for the JVM instead of starting its own.
        """
        if len(list(free_sockets(self._directory))) >= FREE_MAX:
            return None
        path = self._directory / f"{os.getpid()}.sock"
        bound = path.with_suffix(".new")
        with socket.socket(socket.AF_UNIX) as listener:
            try:
                bound.unlink(missing_ok=True)
                listener.bind(str(bound))
                listener.listen()
                # Rename it only now: a program that found a socket without a listener would take it for one of a killed
                # keeper, and remove it.
                bound.rename(path)
                if not self._stop_session():
                    return None
                return listener.accept()[0] if _ready(listener, self._process, IDLE_S) == [listener] else None
            finally:
                path.unlink(missing_ok=True)


def _ready(connection: socket.socket, process: JvmProcess, timeout_s: float | None = None) -> list[Any]:
    both: list[Any] = [connection, process]
    return select.select(both, [], [], timeout_s)[0]


if __name__ == "__main__":
    main()
