"""The process that keeps one JVM: `python -m penstock.hosts.spark.driver.jvm_keeper DIRECTORY DESCRIPTOR`.

The program that starts it is the first to have the JVM, by the socket DESCRIPTOR; those after it connect to a socket in
DIRECTORY (`kept_jvm.py`). Between two programs the keeper stops what the first has left of its session. It ends, with
its JVM, when nobody has wanted it for ten minutes, when enough others are free, or when a program ended without giving
the JVM back: it was killed, and its job still runs there.
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
from penstock.hosts.spark.driver.kept_jvm import RETURNED, JvmProcess, Lease, Wanted, free_in
from penstock.hosts.spark.internals.jvm_start import StartedJvm

IDLE_S = 600.0
FREE_MAX = 2
_STOP_S = 10.0
_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "USER", "XDG_CACHE_HOME")
_LOG_BYTES = 1 << 20
_LOGS_S = 7 * 24 * 3600.0


def main() -> None:
    """Start the JVM that the first program wants, then serve."""
    directory, first = Path(sys.argv[1]), socket.socket(fileno=int(sys.argv[2]))
    wanted = from_json(first.makefile("rb").readline(), Wanted)
    # Its own, as Spark writes to the working directory. Programs link to the log there, so it stays for a while.
    _remove_old(directory)
    own = directory / str(os.getpid())
    own.mkdir(mode=0o700, exist_ok=True)
    os.chdir(own)
    log = own / "jvm.log"
    _forget_environment()
    os.environ.update(JAVA_HOME=wanted.java_home, PENSTOCK_JVM_LOG=str(log), PENSTOCK_JVM_LOG_BYTES=str(_LOG_BYTES))
    os.environ["PENSTOCK_JVM_LOG_MAX"] = "2"
    jvm = StartedJvm(wanted.settings)
    try:
        Keeper(directory, jvm, log).serve(first)
    finally:
        jvm.end()


def _remove_old(directory: Path) -> None:
    for own in directory.glob("[0-9]*/"):
        with contextlib.suppress(OSError):
            if time.time() - max(path.stat().st_mtime for path in (own, *own.iterdir())) > _LOGS_S:
                shutil.rmtree(own)


def _forget_environment() -> None:
    """Workers get the environment of their program: what is left here would be seen by those of others."""
    for name in list(os.environ):
        if name not in _INHERITED and not name.startswith("SPARK_"):
            del os.environ[name]


class KeptProcess(Protocol):
    """What a keeper needs of its JVM: hosts/spark/internals/jvm_start.py."""

    pid: int
    port: int
    secret: str

    def stop_context(self) -> None:
        """Stop what a program has left."""


class Keeper:
    """Of one JVM. Programs have it one after the other; the first is given to `serve`."""

    def __init__(self, directory: Path, jvm: KeptProcess, log: Path) -> None:
        self._directory = directory
        self._started = jvm
        self._process = JvmProcess(jvm.pid)
        self._lease = msgspec.json.encode(Lease(jvm.port, jvm.secret, jvm.pid, str(log))) + b"\n"

    def serve(self, program: socket.socket | None) -> None:
        """Give the JVM to one program after the other."""
        while program is not None:
            with program:
                if not self._is_returned_by(program):
                    return
            if not self._is_clean():
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

    def _is_clean(self) -> bool:
        """Stop what is left. False: that failed, or takes too long."""
        stopped = threading.Event()

        def stop() -> None:
            self._started.stop_context()
            stopped.set()

        threading.Thread(target=stop, name="stop", daemon=True).start()
        return stopped.wait(_STOP_S)

    def _next(self) -> socket.socket | None:
        if len(list(free_in(self._directory))) >= FREE_MAX:
            return None
        path = self._directory / f"{os.getpid()}.sock"
        bound = path.with_suffix(".new")
        with socket.socket(socket.AF_UNIX) as listener:
            try:
                bound.unlink(missing_ok=True)
                listener.bind(str(bound))
                listener.listen()
                # Seen before it listens, it would be taken for one whose keeper was killed, and removed.
                bound.rename(path)
                return listener.accept()[0] if _ready(listener, self._process, IDLE_S) == [listener] else None
            finally:
                path.unlink(missing_ok=True)


def _ready(connection: socket.socket, process: JvmProcess, within_s: float | None = None) -> list[Any]:
    both: list[Any] = [connection, process]
    return select.select(both, [], [], within_s)[0]


if __name__ == "__main__":
    main()
