"""Planners that several programs of a user have, one after the other.

A program that ends returns its process, which then listens at a socket in a directory that only the user can read, as
[kept JVMs of Spark](../../hosts/spark/driver/jvm_lease.py) do; `penstock end-sessions` ends both. The token of a file
next to the socket is for one program. Each program has environments and class loaders of its own; the process is the
same, with its loaded and compiled classes. Source of the protocol: `java/KeptServer.java`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from penstock.hosts.spark.driver.jvm_lease import free_sockets, kept_directory
from penstock.table.planner.running_planner import RETURN, ChildPlanner, Lines

IDLE_S = 600
FREE_MAX = 2
_ANSWER_S = 10.0
_CREDENTIALS = struct.Struct("3i")
_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER", "XDG_CACHE_HOME")
"""Variables that a kept process has. Others are of the program that started it, secrets among them."""
_DECIDING = ("LANG", "LC_ALL", "TZ", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Variables that change how a JVM plans: each value has processes of its own."""


class KeptPlanners:
    """The kept processes that this command starts: `idle_s`, `free_max`: how long and how many stay without a program.

    Raises ValueError if the path of their directory is too long for a socket, OSError if it can't be created.
    """

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], *, idle_s: int = IDLE_S, free_max: int = FREE_MAX
    ) -> None:
        settings = [environ.get(name, "") for name in _DECIDING]
        self.directory = kept_directory([__file__, *command, *settings], environ)
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._command = [*command, str(self.directory), str(idle_s), str(free_max)]
        self._environ = {name: environ[name] for name in (*_INHERITED, *_DECIDING) if name in environ}

    def free(self) -> KeptPlanner | None:
        """Return a process that an earlier program has returned, or None."""
        for path in free_sockets(self.directory):
            if (kept := _connected(path)) is not None:
                return kept
        return None

    def new(self) -> ChildPlanner:
        """Start a process. Raises OSError."""
        return ChildPlanner(self._command, kept=True, environ=self._environ, working_directory=self.directory)


class KeptPlanner:
    """A process of an earlier program, which this program has until it returns it, or ends."""

    def __init__(self, connection: socket.socket, pid: int, process: int, messages: IO[bytes] | None) -> None:
        self.pid = pid
        self._connection = connection
        self._process = process
        """A descriptor of the process: its id may belong to another one later."""
        self._messages = messages
        self._lines = Lines(connection.fileno())

    def runs(self) -> bool:
        return not select.select([self._process], [], [], 0)[0]

    def send(self, line: bytes) -> None:
        self._connection.sendall(line)

    def receive(self, until_s: float) -> bytes:
        return self._lines.next(until_s)

    def messages(self) -> bytes:
        return self._messages.read() if self._messages is not None else b""

    def give_back(self) -> None:
        with contextlib.suppress(OSError, TimeoutError, EOFError):
            self.send(RETURN)
            self.receive(time.monotonic() + _ANSWER_S)
        # A process that did not answer ends itself when it sees the end of the connection.
        self._close()

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._process, signal.SIGKILL)
            select.select([self._process], [], [], _ANSWER_S)
        self._close()

    def _close(self) -> None:
        self._connection.close()
        with contextlib.suppress(OSError):
            os.close(self._process)
        if self._messages is not None:
            self._messages.close()


def _connected(path: Path) -> KeptPlanner | None:
    """Return the process that listens there; None if it has ended, or another program was faster."""
    connection = socket.socket(socket.AF_UNIX)
    descriptors: list[int] = []
    try:
        token = path.with_suffix(".token").read_text(encoding="ascii")
        try:
            connection.connect(str(path))
        except ConnectionRefusedError:
            # The process was killed.
            path.unlink(missing_ok=True)
            path.with_suffix(".token").unlink(missing_ok=True)
            raise
        pid = _listener(connection)
        descriptors.append(os.pidfd_open(pid))
        lines, until_s = Lines(connection.fileno()), time.monotonic() + _ANSWER_S
        lines.next(until_s)
        connection.sendall(json.dumps({"token": token, "pid": os.getpid()}).encode() + b"\n")
        lines.next(until_s)
        return KeptPlanner(connection, pid, descriptors.pop(), _messages_of(pid))
    except (OSError, EOFError):
        connection.close()
        for descriptor in descriptors:
            os.close(descriptor)
        return None


def _listener(connection: socket.socket) -> int:
    """Return the id of the process at the other end. Raises OSError if another user or another container has it."""
    size = _CREDENTIALS.size
    pid, user, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    if pid <= 0 or user != os.geteuid():
        raise PermissionError(f"the process {pid} of the user {user} is not ours")
    return int(pid)


def _messages_of(pid: int) -> IO[bytes] | None:
    """Return the messages of the process: a file without a name, which the program that started it has created."""
    with contextlib.suppress(OSError):
        messages = Path(f"/proc/{pid}/fd/2").open("rb")  # noqa: SIM115
        messages.seek(0, os.SEEK_END)
        return messages
    return None
