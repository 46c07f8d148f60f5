"""The processes that users' functions have started and not ended, when their worker ends.

A worker ends by `os._exit`, so nothing of what Python does at the end of a process is done for it, and processes of
`multiprocessing` would wait for work for ever. Those that were started otherwise (`subprocess`, `os.fork`) are left
alone, as Python does: they may be meant to stay.
"""

from __future__ import annotations

import multiprocessing
import time

_END_MAX_S = 2.0


def end_children(limit_s: float = _END_MAX_S) -> None:
    """End the processes of `multiprocessing`, those of pools included: asked first, killed after `limit_s` seconds."""
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
