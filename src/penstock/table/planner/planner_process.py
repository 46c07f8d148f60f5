"""The planner's process: a JVM of its own that answers requests, one after the other.

It is not Spark's JVM: Scala, Jackson and Janino of both would clash. This program starts it and talks to it over a
pipe, or has one that an earlier program of the same user has returned. It ends, or is returned, with this program.
"""

from __future__ import annotations

import json
import os
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

from penstock.table.planner.errors import PlannerError
from penstock.table.planner.kept_planner import KeptPlanners
from penstock.table.planner.running_planner import ChildPlanner, RunningPlanner

TIMEOUT_S = 120.0
"""A statement that is not planned by then is given up (seconds)."""
_MESSAGES_MAX = 2000


class PlannerProcess:
    """A running planner. `command` starts it; `close` ends or returns it, and the end of this program does.

    `timeout_s`: a request that is not answered by then is given up, and the process with it. `kept`: where processes
    stay for the user's next program; None: it ends with this one.
    """

    def __init__(
        self, command: Sequence[str], *, timeout_s: float = TIMEOUT_S, kept: KeptPlanners | None = None
    ) -> None:
        self.started = 0
        """How often a process was started or taken over: it knows nothing from before."""
        self._command = list(command)
        self._kept = kept
        self.timeout_s = timeout_s
        self._lock = threading.Lock()
        self._running: RunningPlanner | None = None
        self._owner = 0
        self._end: weakref.finalize[Any, Any] | None = None

    @property
    def pid(self) -> int | None:
        """The process's id, or None if it does not run."""
        return self._running.pid if self._running is not None and self._running.runs() else None

    def start(self) -> None:
        """Start the process unless it runs. Raises PlannerError."""
        with self._lock:
            self._start()

    def request(self, operation: str, **fields: Any) -> dict[str, Any]:
        """Return the answer. Raises PlannerError if the process ends, or does not answer in time."""
        line = json.dumps({"operation": operation, **fields}).encode() + b"\n"
        with self._lock:
            running = self._start()
            until_s = time.monotonic() + self.timeout_s
            try:
                running.send(line)
                answer: dict[str, Any] = json.loads(running.receive(until_s))
            except TimeoutError:
                raise self._failure(f"did not answer within {self.timeout_s:g} s") from None
            except (OSError, EOFError):
                raise self._failure("has ended") from None
            except BaseException:
                # What the process answers after an interruption belongs to another request.
                self._discard()
                raise
            return answer

    def close(self) -> None:
        """End the process, and wait until it has ended; or return it. A later request starts another one."""
        with self._lock:
            self._stop()

    def _start(self) -> RunningPlanner:
        # After a fork, the process and its pipes are the parent's.
        if self._running is not None and self._owner == os.getpid() and self._running.runs():
            return self._running
        self._stop()
        try:
            self._running = self._new()
        except OSError as error:
            raise PlannerError(f"Flink's planner does not start: {error}") from None
        self.started += 1
        self._owner = os.getpid()
        self._end = weakref.finalize(self, _give_back, self._running, os.getpid())
        return self._running

    def _new(self) -> RunningPlanner:
        if self._kept is None:
            return ChildPlanner(self._command)
        return self._kept.free() or self._kept.new()

    def _failure(self, what: str) -> PlannerError:
        said = ""
        if self._running is not None:
            said = self._running.messages()[-_MESSAGES_MAX:].decode(errors="replace").strip()
        self._discard()
        shown = f". It said:\n{said}" if said else ""
        return PlannerError(f"Flink's planner {what}. Try again: the next statement starts it{shown}")

    def _stop(self) -> None:
        if self._end is not None:
            self._end()
        self._end = self._running = None

    def _discard(self) -> None:
        if self._end is not None:
            self._end.detach()
        if self._running is not None:
            self._running.kill()
        self._end = self._running = None


def _give_back(running: RunningPlanner, owner: int) -> None:
    # A fork of the program has the process's pipes, but must not end it.
    if os.getpid() == owner:
        running.give_back()
