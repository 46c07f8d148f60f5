"""Interrupting a user's function when the job is cancelled, as Flink interrupts the thread of a task.

A function may sleep, wait for a socket, or loop. A signal to the process runs its handler in the main thread, also out
of a system call, and the handler raises there: but only while a step of the slot runs, never in the code of PySpark.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from penstock.common.user_calls import Interrupted

_GRACE_SECONDS = 0.3
_AGAIN_SECONDS = 1.0


class Interrupt:
    """Belongs to the main thread of a worker, which must create it; `soon` may be called by any thread.

    A step gets `grace_seconds` to end by itself; what goes on after an interrupt is interrupted each `again_seconds`.
    """

    def __init__(self, grace_seconds: float = _GRACE_SECONDS, again_seconds: float = _AGAIN_SECONDS) -> None:
        self._allowed = False
        self._grace_seconds = grace_seconds
        self._again_seconds = again_seconds
        signal.signal(signal.SIGUSR1, self._handle)

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """The code inside may be interrupted: `Interrupted` is raised in it at most once."""
        self._allowed = True
        try:
            yield
        finally:
            self._allowed = False

    def soon(self) -> None:
        """Interrupt the code that is allowed to be, unless it ends soon; again and again until it does."""
        timer = threading.Timer(self._grace_seconds, self._raise_in_main_thread)
        timer.daemon = True
        timer.start()

    def _raise_in_main_thread(self) -> None:
        # Again, as the function may have caught the exception, or be in another step by now.
        if self._allowed:
            os.kill(os.getpid(), signal.SIGUSR1)
            timer = threading.Timer(self._again_seconds, self._raise_in_main_thread)
            timer.daemon = True
            timer.start()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # The signal may arrive after the step has ended: then there is nothing to interrupt.
        if self._allowed:
            self._allowed = False
            raise Interrupted
