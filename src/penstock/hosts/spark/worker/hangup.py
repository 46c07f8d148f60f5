"""Detect in a worker that Spark has ended its task.

When a Spark job is canceled or a query is stopped, Spark only closes its end of the worker's sockets. A worker that
computes would continue until its next write, or forever if it loops. So a thread watches the sockets that existed when
the task started, before a user's function could open one. A process that still runs some seconds after its sockets were
closed is killed, since its output can no longer be received.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import threading
import time
from collections.abc import Callable

_CHECK_MS = 500
_HUNG_UP = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
_FDS_MAX = 256
_GRACE_SECONDS = 5.0


def watch_for_hangup(on_hangup: Callable[[], None], grace_seconds: float = _GRACE_SECONDS) -> None:
    """Call `on_hangup` once, from a thread, when the other end of one of this process's sockets is closed.

    A process that still runs `grace_seconds` after that is killed with SIGKILL.
    """
    watched = [fd for fd in range(3, _FDS_MAX) if _is_socket(fd)]
    arguments = (watched, on_hangup, grace_seconds)
    threading.Thread(target=_watch, args=arguments, name="penstock-hangup", daemon=True).start()


def _watch(watched: list[int], on_hangup: Callable[[], None], grace_seconds: float) -> None:
    poll = select.poll()
    for fd in watched:
        poll.register(fd, getattr(select, "POLLRDHUP", 0))
    while True:
        # With a timeout: if this process closes a descriptor, a poll that waits already does not return.
        if any(event & _HUNG_UP for _, event in poll.poll(_CHECK_MS)):
            on_hangup()
            time.sleep(grace_seconds)
            os.kill(os.getpid(), signal.SIGKILL)


def _is_socket(fd: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False
