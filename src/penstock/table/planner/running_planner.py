"""A planner that runs: a child of this program, or one that an earlier program has returned (`kept_planner.py`)."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

_END_S = 5.0
_RETURN_S = 10.0
RETURN = b'{"operation": "return"}\n'
"""The request with which a program returns a process that is kept."""
_returned: list[subprocess.Popen[bytes]] = []
"""Processes of this program that now serve others. They are not waited for."""


class RunningPlanner(Protocol):
    """A process that answers requests, each a line of JSON."""

    pid: int

    def runs(self) -> bool:
        """Return whether the process has not ended."""

    def send(self, line: bytes) -> None:
        """Send a request. Raises OSError."""

    def receive(self, until_s: float) -> bytes:
        """Return the next line. Raises TimeoutError at this time (of `time.monotonic`), EOFError, OSError."""

    def messages(self) -> bytes:
        """Return what the process has written to its standard error."""

    def give_back(self) -> None:
        """Return the process if it is kept, otherwise end it and wait for its end."""

    def kill(self) -> None:
        """End the process, whatever it does, and wait for its end."""


class Lines:
    """The lines that arrive at a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""

    def next(self, until_s: float) -> bytes:
        """Return a line. Raises TimeoutError at this time (of `time.monotonic`), EOFError, OSError."""
        pieces = [self._rest]
        while b"\n" not in pieces[-1]:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not select.select([self._descriptor], [], [], left_s)[0]:
                raise TimeoutError
            piece = os.read(self._descriptor, 1 << 16)
            if not piece:
                raise EOFError
            pieces.append(piece)
        line, _, self._rest = b"".join(pieces).partition(b"\n")
        return line


class ChildPlanner:
    """A process that this program starts. It ends with the program, unless it is kept and the program returns it.

    Raises OSError if it does not start.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        kept: bool = False,
        environ: Mapping[str, str] | None = None,
        working_directory: Path | None = None,
    ) -> None:
        self._kept = kept
        self._messages: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        # A session of its own: Ctrl-C in the terminal is for the program.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            start_new_session=True,
            env=environ,
            cwd=working_directory,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._lines = Lines(self._output.fileno())
        self.pid = self._process.pid

    def runs(self) -> bool:
        return self._process.poll() is None

    def send(self, line: bytes) -> None:
        self._input.write(line)
        self._input.flush()

    def receive(self, until_s: float) -> bytes:
        return self._lines.next(until_s)

    def messages(self) -> bytes:
        self._messages.seek(0)
        return self._messages.read()

    def give_back(self) -> None:
        if self._kept and self._is_returned():
            _returned.append(self._process)
            self._close()
            return
        self._close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._close()

    def _is_returned(self) -> bool:
        """Return the process; it answers before this program may end, as that would end it."""
        with contextlib.suppress(OSError, TimeoutError, EOFError):
            self.send(RETURN)
            return bool(self.receive(time.monotonic() + _RETURN_S))
        return False

    def _close(self) -> None:
        for file in (self._input, self._output, self._messages):
            with contextlib.suppress(OSError):
                file.close()
