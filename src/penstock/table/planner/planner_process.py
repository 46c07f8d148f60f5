"""The planner's process: a JVM of its own that answers requests over a pipe, one after the other.

It is not Spark's JVM: Scala, Jackson and Janino of both would clash. Only this process holds the other end of the
pipe, so there is no port and no token. The JVM ends with its input, and also when this process ends without closing it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import IO, Any

from penstock.table.planner.errors import PlannerError

TIMEOUT_S = 120.0
"""A statement that is not planned by then is given up (seconds)."""
_END_S = 5.0
_MESSAGES_MAX = 2000


class PlannerProcess:
    """A running planner. `command` starts it; it is ended by `close`, or with this program."""

    def __init__(self, command: Sequence[str], *, timeout_s: float = TIMEOUT_S) -> None:
        self.started = 0
        """How often the process was started: it has forgotten everything from before."""
        self._command = list(command)
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._messages: IO[bytes] | None = None
        self._rest = b""
        self._owner = 0
        self._end: Callable[[], object] = lambda: None

    @property
    def pid(self) -> int | None:
        """The process's id, or None if it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the process unless it runs. Raises PlannerError."""
        with self._lock:
            self._start()

    def request(self, operation: str, **fields: Any) -> dict[str, Any]:
        """Return the answer. Raises PlannerError if the process ends, or does not answer in time."""
        line = json.dumps({"operation": operation, **fields}).encode() + b"\n"
        with self._lock:
            process = self._start()
            assert process.stdin is not None
            until_s = time.monotonic() + self._timeout_s
            try:
                process.stdin.write(line)
                process.stdin.flush()
                answer: dict[str, Any] = json.loads(self._line(process, until_s))
            except TimeoutError:
                raise self._failure(f"did not answer within {self._timeout_s:g} s") from None
            except (OSError, EOFError):
                raise self._failure("has ended") from None
            except BaseException:
                # What the process answers after an interruption belongs to another request.
                self._stop()
                raise
            return answer

    def close(self) -> None:
        """End the process, and wait until it has ended. A later request starts another one."""
        with self._lock:
            self._stop()

    def _start(self) -> subprocess.Popen[bytes]:
        # After a fork, the process and its pipes are the parent's.
        if self._process is not None and self._owner == os.getpid() and self._process.poll() is None:
            return self._process
        self._stop()
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            # A session of its own: Ctrl-C in the terminal is for the program.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._messages,
                start_new_session=True,
            )
        except OSError as error:
            raise PlannerError(f"Flink's planner does not start: {error}") from None
        self.started += 1
        self._owner = os.getpid()
        self._rest = b""
        self._end = weakref.finalize(self, _end, self._process, os.getpid())
        return self._process

    def _line(self, process: subprocess.Popen[bytes], until_s: float) -> bytes:
        assert process.stdout is not None
        pieces = [self._rest]
        while b"\n" not in pieces[-1]:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not select.select([process.stdout], [], [], left_s)[0]:
                raise TimeoutError
            piece = os.read(process.stdout.fileno(), 1 << 16)
            if not piece:
                raise EOFError
            pieces.append(piece)
        line, _, self._rest = b"".join(pieces).partition(b"\n")
        return line

    def _failure(self, what: str) -> PlannerError:
        messages = b""
        if self._messages is not None:
            self._messages.seek(0)
            messages = self._messages.read()[-_MESSAGES_MAX:]
        self._stop()
        said = messages.decode(errors="replace").strip()
        shown = f". It said:\n{said}" if said else ""
        return PlannerError(f"Flink's planner {what}. Try again: the next statement starts it{shown}")

    def _stop(self) -> None:
        self._end()
        self._end = lambda: None
        self._process = None
        if self._messages is not None:
            self._messages.close()
            self._messages = None


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    # A fork of the program has the process's pipes, but must not end it.
    if os.getpid() != owner:
        return
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
