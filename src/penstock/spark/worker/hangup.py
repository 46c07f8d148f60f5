"""Noticing in a task that Spark has given it up.

A Spark job that is cancelled, or a query that is stopped, closes its end of the worker's sockets and does nothing else:
a worker that computes would go on until it next writes, for ever if it loops. A thread watches the sockets that were
there when the task began, before a user's function could open any of its own. Whoever has not left some seconds later
is killed: there is nobody left to work for.
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
_LAST_SECONDS = 5.0


def watch_for_hangup(on_hangup: Callable[[], None]) -> None:
    """Call `on_hangup` once, from a thread, when the other end of one of this process's sockets is closed.

    A process that is still there 5 seconds after that is killed.
    """
    watched = [fd for fd in range(3, _FDS_MAX) if _is_socket(fd)]
    threading.Thread(target=_watch, args=(watched, on_hangup), name="penstock-hangup", daemon=True).start()


def _watch(watched: list[int], on_hangup: Callable[[], None]) -> None:
    poll = select.poll()
    for fd in watched:
        poll.register(fd, getattr(select, "POLLRDHUP", 0))
    while True:
        if any(event & _HUNG_UP for _, event in poll.poll(_CHECK_MS)):
            on_hangup()
            time.sleep(_LAST_SECONDS)
            os.kill(os.getpid(), signal.SIGKILL)


def _is_socket(fd: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False
