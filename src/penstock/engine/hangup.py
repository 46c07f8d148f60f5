"""Noticing in a batched task that Spark has given it up.

A cancelled Spark job closes its end of the worker's sockets and says nothing else: a worker that computes would go on
until it next writes, for ever if it loops. A thread watches the sockets that were there when the task began, before a
user's function could open any of its own.
"""

from __future__ import annotations

import os
import select
import stat
import threading
from collections.abc import Callable

_CHECK_MS = 500
_HUNG_UP = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
_FDS_MAX = 256


def watch_for_hangup(on_hangup: Callable[[], None]) -> None:
    """Call `on_hangup` once, from a thread, when the other end of one of this process's sockets is closed."""
    watched = [fd for fd in range(3, _FDS_MAX) if _is_socket(fd)]
    threading.Thread(target=_watch, args=(watched, on_hangup), name="penstock-hangup", daemon=True).start()


def _watch(watched: list[int], on_hangup: Callable[[], None]) -> None:
    poll = select.poll()
    for fd in watched:
        poll.register(fd, getattr(select, "POLLRDHUP", 0))
    while True:
        if any(event & _HUNG_UP for _, event in poll.poll(_CHECK_MS)):
            on_hangup()
            return


def _is_socket(fd: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False
