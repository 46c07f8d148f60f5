"""How long a thread has waited for a core: it had work, and other threads ran."""

from __future__ import annotations

import io
import os
from collections.abc import Callable

OF_THIS_THREAD = "/proc/thread-self/schedstat"
_BYTES_MAX = 96


def core_wait(of_this_thread: str = OF_THIS_THREAD) -> Callable[[], int]:
    """A function that tells it of the thread that calls this: nanoseconds, in all. Always 0 where no system counts it.

    Source: Linux, Documentation/scheduler/sched-stats.rst: time on the processor, time in the queue, turns. A call
    costs one to two microseconds.
    """
    try:
        # Closed with the function that holds it, and so with its slot.
        file = io.FileIO(of_this_thread)
    except OSError:
        return lambda: 0

    def waited_ns() -> int:
        return int(os.pread(file.fileno(), _BYTES_MAX, 0).split()[1])

    try:
        waited_ns()
    except (OSError, IndexError, ValueError):
        return lambda: 0
    return waited_ns
