"""Interrupting a user's function when the job is cancelled, as Flink interrupts a task's thread.

A function may sleep, wait for a socket, or loop. A signal to the process's main thread wakes it from system calls too,
and its handler raises there, but only while a step of the slot is under way: Spark's own code is never interrupted.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_GRACE_SECONDS = 0.3
_AGAIN_SECONDS = 1.0


class Interrupted(BaseException):
    """Raised inside a user's function. Not an Exception: a function that catches all of those must not swallow it."""


class Interrupt:
    """Owned by the main thread of a worker; `soon` may be called by another."""

    def __init__(self) -> None:
        self._allowed = False
        signal.signal(signal.SIGUSR1, self._handle)

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """The code inside may be interrupted."""
        self._allowed = True
        try:
            yield
        finally:
            self._allowed = False

    def soon(self) -> None:
        """Interrupt what is running now, unless it ends within a moment; again and again if it goes on."""
        timer = threading.Timer(_GRACE_SECONDS, self._raise_in_main_thread)
        timer.daemon = True
        timer.start()

    def _raise_in_main_thread(self) -> None:
        if self._allowed:
            os.kill(os.getpid(), signal.SIGUSR1)
            timer = threading.Timer(_AGAIN_SECONDS, self._raise_in_main_thread)
            timer.daemon = True
            timer.start()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._allowed:
            self._allowed = False
            raise Interrupted
