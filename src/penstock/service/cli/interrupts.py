"""Handle Ctrl-C and SIGTERM.

The first Ctrl-C ends the program in order, the second one at once. SIGTERM ends it as a crash would.
"""

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
_FIRST = "\nCtrl-C: stopping the program. Press Ctrl-C again to stop at once, without waiting for its tasks to close"
_SECOND = "\nstopped at once"
_TERMINATED = (
    "\nSIGTERM: the program ends at once. A job of a cluster keeps running there; any other job with checkpoints "
    "resumes from the newest one with penstock run -s latest. To end a job with a savepoint: penstock stop"
)
_ANNOUNCEMENT_S_MAX = 1.0
"""Upper bound for printing the message before the process ends: the reader of standard error may have stopped."""
_log = logging.getLogger(__name__)


class Interrupts:
    """Make a second Ctrl-C end the process immediately, from entering this context until the process ends."""

    def __init__(self) -> None:
        self._latest_s: float | None = None
        self._process = 0
        self._former: Any = signal.SIG_DFL

    @property
    def has_come(self) -> bool:
        """Whether the user has pressed Ctrl-C, so that the program is stopping."""
        return self._latest_s is not None

    def __enter__(self) -> Interrupts:
        # Python delivers signals to the main thread only, and only that thread can set a handler.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._interrupt)
            self._process = os.getpid()
            self._former = signal.signal(signal.SIGTERM, self._terminate)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After a first Ctrl-C the handler stays: a second one during Python's shutdown would print a traceback.
        if self._latest_s is None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, self._former)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if self._latest_s is not None and now_s - self._latest_s < _TOGETHER_S:
            _write_line(_SECOND)
            # Without this the JVM would end when the pipe to this process closes, but would log errors and write its
            # class archive first. Its workers end with it.
            jvm = sys.modules.get("penstock.hosts.spark.internals.jvm")
            if jvm is not None:
                # Other threads may be calling the JVM: Py4J would log each of these calls as failed.
                logging.disable()
                jvm.kill_jvm(wait=False)
            os._exit(EXIT_CODE)
        self._latest_s = now_s
        _write_line(_FIRST)
        raise KeyboardInterrupt

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # A child process of the program inherits this handler; only the parent prints the message.
        if os.getpid() == self._process:
            announcement = threading.Thread(target=_announce_end, daemon=True)
            announcement.start()
            announcement.join(_ANNOUNCEMENT_S_MAX)
        os.kill(os.getpid(), signal.SIGTERM)


def _announce_end() -> None:
    # The same line as in Flink's log, where users look for the reason of an end.
    _log.info("RECEIVED SIGNAL 15: SIGTERM")
    _write_line(_TERMINATED)


def abandon_jvm() -> None:
    """Skip what the JVM would write at its end: the program ends by Ctrl-C."""
    session = sys.modules.get("penstock.hosts.spark.driver.session")
    # Looked up, not imported: if the module is not loaded, this process has not started a JVM.
    if session is not None:
        session.program_interrupted()


def _write_line(text: str) -> None:
    # Not with print: the signal may have interrupted a print, and the stream is not reentrant.
    with contextlib.suppress(OSError):
        os.write(_STANDARD_ERROR, f"{text}\n".encode())
