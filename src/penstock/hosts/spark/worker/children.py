"""End processes that users' functions have started, when their worker ends.

A worker ends by `os._exit`, which skips Python's handlers at exit, so processes of `multiprocessing` would wait forever
for work. Other processes (`subprocess`, `os.fork`) are not ended, as in Python: they may have to outlive the worker.
"""

from __future__ import annotations

import multiprocessing
import time

_END_MAX_S = 2.0


def end_children(limit_s: float = _END_MAX_S) -> None:
    """Terminate the processes of `multiprocessing`, including pools, and kill them after `limit_s` seconds."""
    children = multiprocessing.active_children()
    for child in children:
        child.terminate()
    until = time.monotonic() + limit_s
    for child in children:
        child.join(max(0.0, until - time.monotonic()))
    for child in children:
        if child.is_alive():
            child.kill()
            child.join(limit_s)
