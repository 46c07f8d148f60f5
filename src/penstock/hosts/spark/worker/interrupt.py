"""Interrupt a user's function when the job is canceled, as Flink interrupts the thread of a task.

A function may sleep, wait for a socket, or loop. A signal to the process runs its handler in the main thread, even
during a system call, and the handler raises there: but only while a step of the slot runs, never in PySpark's code.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from penstock.common.functions.user_calls import Interrupted

_STDERR = 2
_FORKED = (
    "A process that a function has forked has returned from the function, and ends: it must not continue the task. "
    "End it by os._exit in the function\n"
)
_GRACE_SECONDS = 0.3
_REPEAT_SECONDS = 1.0


class Interrupt:
    """Interrupt the steps of slots in the main thread of a worker, which must create this object.

    Any thread may call `soon`. A step has `grace_seconds` to end; after that it is interrupted every `repeat_seconds`
    until it ends. `slot` is the index of a slot, since several slots may share the thread.
    """

    def __init__(self, grace_seconds: float = _GRACE_SECONDS, repeat_seconds: float = _REPEAT_SECONDS) -> None:
        self._allowed: int | None = None
        """The slot whose step runs now."""
        self._grace_seconds = grace_seconds
        self._repeat_seconds = repeat_seconds
        self._worker = os.getpid()
        signal.signal(signal.SIGUSR1, self._handle)

    @contextlib.contextmanager
    def allowed(self, slot: int = 0) -> Iterator[None]:
        """Allow interrupts of the block, which is a slot's step: `Interrupted` is raised in it at most once.

        At the end of the block, end a process that a user's function has forked: it would continue the task as well as
        the worker, over the same connections.
        """
        self._allowed = slot
        try:
            yield
        finally:
            self._allowed = None
            if os.getpid() != self._worker:
                _end_forked_process()

    def soon(self, slot: int | None = None) -> None:
        """Interrupt the step of this slot, or of any slot if None, unless it ends soon; repeat that until it ends."""
        self._start_timer(self._grace_seconds, slot)

    def _start_timer(self, seconds: float, slot: int | None) -> None:
        timer = threading.Timer(seconds, self._raise_in_main_thread, (slot,))
        timer.daemon = True
        timer.start()

    def _raise_in_main_thread(self, slot: int | None) -> None:
        # Repeat it: the function may have caught the exception, or another step may run now.
        allowed = self._allowed
        if allowed is not None and slot in (None, allowed):
            os.kill(os.getpid(), signal.SIGUSR1)
            self._start_timer(self._repeat_seconds, slot)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # The signal may arrive after the step has ended.
        if self._allowed is not None:
            self._allowed = None
            raise Interrupted


def _end_forked_process() -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(_STDERR, _FORKED.encode())
    os._exit(1)
