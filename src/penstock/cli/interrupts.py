"""Ctrl-C: the first one ends the program in order, the second one at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from types import FrameType, TracebackType

EXIT_CODE = 130
"""Exit status of a program ended by Ctrl-C, as in shells: 128 and the number of the signal."""
_TOGETHER_S = 10.0
_STANDARD_ERROR = 2
_FIRST = "\nCtrl-C: the program is being stopped. Once more: at once, without waiting for its tasks to close"
_SECOND = "\nstopped at once"


class Interrupts:
    """From the time it is entered until the process ends: a second Ctrl-C ends it immediately."""

    def __init__(self) -> None:
        self._latest_s: float | None = None

    def __enter__(self) -> Interrupts:
        # Signals come to the main thread only, and only there a handler can be set.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The handler stays if it was used: what Python does at its end can be interrupted, too, with a traceback.
        if self._latest_s is None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if self._latest_s is not None and now_s - self._latest_s < _TOGETHER_S:
            _say(_SECOND)
            # Spark's JVM ends when the pipe to this process closes, and its workers end with it.
            os._exit(EXIT_CODE)
        self._latest_s = now_s
        _say(_FIRST)
        raise KeyboardInterrupt


def _say(text: str) -> None:
    # Not by print: a signal may come within one, and the same stream can't be entered twice.
    with contextlib.suppress(OSError):
        os.write(_STANDARD_ERROR, f"{text}\n".encode())
