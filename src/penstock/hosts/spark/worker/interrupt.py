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

from penstock.common.functions.user_calls import Interrupted

_GRACE_SECONDS = 0.3
_AGAIN_SECONDS = 1.0


class Interrupt:
    """Belongs to the main thread of a worker, which must create it; `soon` may be called by any thread.

    A step gets `grace_seconds` to end by itself; what goes on after an interrupt is interrupted each `again_seconds`.
    Slots that share the thread are told apart by their index.
    """

    def __init__(self, grace_seconds: float = _GRACE_SECONDS, again_seconds: float = _AGAIN_SECONDS) -> None:
        self._allowed: int | None = None
        """The slot whose step runs now."""
        self._grace_seconds = grace_seconds
        self._again_seconds = again_seconds
        signal.signal(signal.SIGUSR1, self._handle)

    @contextlib.contextmanager
    def allowed(self, slot: int = 0) -> Iterator[None]:
        """The code inside, which is that slot's, may be interrupted: `Interrupted` is raised in it at most once."""
        self._allowed = slot
        try:
            yield
        finally:
            self._allowed = None

    def soon(self, slot: int | None = None) -> None:
        """Interrupt the code of this slot, or of any slot, unless it ends soon; again and again until it does."""
        self._start_timer(self._grace_seconds, slot)

    def _start_timer(self, seconds: float, slot: int | None) -> None:
        timer = threading.Timer(seconds, self._raise_in_main_thread, (slot,))
        timer.daemon = True
        timer.start()

    def _raise_in_main_thread(self, slot: int | None) -> None:
        # Again, as the function may have caught the exception, or be in another step by now.
        allowed = self._allowed
        if allowed is not None and slot in (None, allowed):
            os.kill(os.getpid(), signal.SIGUSR1)
            self._start_timer(self._again_seconds, slot)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # The signal may arrive after the step has ended: then there is nothing to interrupt.
        if self._allowed is not None:
            self._allowed = None
            raise Interrupted
