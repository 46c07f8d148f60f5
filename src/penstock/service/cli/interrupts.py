"""Ctrl-C: the first one ends the program in order, the second one at once. SIGTERM ends it as a crash would."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from types import FrameType, TracebackType
from typing import Any

EXIT_CODE = 130
"""Exit status of a program ended by Ctrl-C, as in shells: 128 and the number of the signal."""
_TOGETHER_S = 10.0
_STANDARD_ERROR = 2
_FIRST = "\nCtrl-C: the program is being stopped. Once more: at once, without waiting for its tasks to close"
_SECOND = "\nstopped at once"
_TERMINATED = (
    "\nSIGTERM: the program ends at once. A job of a cluster goes on there; another one, with checkpoints, goes on "
    "from the newest with penstock run -s latest. To end a job with a savepoint: penstock stop"
)
_TELL_S = 1.0
"""So long the end waits until that is told: what reads standard error may have stopped."""
_log = logging.getLogger(__name__)


class Interrupts:
    """From the time it is entered until the process ends: a second Ctrl-C ends it immediately."""

    def __init__(self) -> None:
        self._latest_s: float | None = None
        self._process = 0
        self._former: Any = signal.SIG_DFL

    @property
    def has_come(self) -> bool:
        """Whether there was one: the program is being stopped."""
        return self._latest_s is not None

    def __enter__(self) -> Interrupts:
        # Signals come to the main thread only, and only there a handler can be set.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._interrupt)
            self._process = os.getpid()
            self._former = signal.signal(signal.SIGTERM, self._terminate)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The handler stays if it was used: what Python does at its end can be interrupted, too, with a traceback.
        if self._latest_s is None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, self._former)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if self._latest_s is not None and now_s - self._latest_s < _TOGETHER_S:
            _say(_SECOND)
            # By itself the JVM ends when the pipe to this process closes, but not in silence, nor without its archive.
            # Its workers end with it.
            jvm = sys.modules.get("penstock.hosts.spark.internals.jvm")
            if jvm is not None:
                # Other threads are in the middle of calls to it: Py4J would log that each of these has failed.
                logging.disable()
                jvm.kill_jvm(waits=False)
            os._exit(EXIT_CODE)
        self._latest_s = now_s
        _say(_FIRST)
        raise KeyboardInterrupt

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # A child of the program's has this handler, and tells nothing: its parent goes on.
        if os.getpid() == self._process:
            telling = threading.Thread(target=_tell_of_the_end, daemon=True)
            telling.start()
            telling.join(_TELL_S)
        os.kill(os.getpid(), signal.SIGTERM)


def _tell_of_the_end() -> None:
    # As Flink's log has it: who asks later why the job has ended looks there.
    _log.info("RECEIVED SIGNAL 15: SIGTERM")
    _say(_TERMINATED)


def give_up_jvm() -> None:
    """The program ends by Ctrl-C: it does not wait for what the JVM would write at its end."""
    session = sys.modules.get("penstock.hosts.spark.driver.session")
    # Not imported for this: without it no JVM was started.
    if session is not None:
        session.program_interrupted()


def _say(text: str) -> None:
    # Not by print: a signal may come within one, and the same stream can't be entered twice.
    with contextlib.suppress(OSError):
        os.write(_STANDARD_ERROR, f"{text}\n".encode())
