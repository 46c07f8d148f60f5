"""Ctrl-C while Spark starts: it waits until the JVM is known."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def interrupts_wait() -> Iterator[Callable[[], object]]:
    """Hold KeyboardInterrupt back until the block ends: a JVM that PySpark does not know yet would stay for ever.

    A SparkContext sets a handler of its own as it is made, which cancels Spark's jobs, amid whatever the program asks
    the JVM then. To call what is given here ends that one's rule; after the block the handler is the one from before.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield lambda: None
        return
    interrupted = False

    def wait(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        try:
            before(number, frame)
        except KeyboardInterrupt:
            interrupted = True

    signal.signal(signal.SIGINT, wait)
    try:
        yield lambda: signal.signal(signal.SIGINT, wait)
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted:
        raise KeyboardInterrupt
