"""Threads that a job can't do without: one that ended without a word would leave the job waiting for ever."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from penstock.common.functions.user_calls import RAISED

_log = logging.getLogger(__name__)

Failed = Callable[[BaseException], object]
"""Called by the thread with what should not have been raised there. It does not raise."""


def start_thread(name: str, run: Callable[[], object], failed: Failed) -> threading.Thread:
    """Start a daemon thread. If it ends by an error, that is logged, and `failed` is called with it."""

    def guarded() -> None:
        try:
            run()
        except RAISED as error:
            _log.exception("the thread %s has ended", name)
            failed(error)

    thread = threading.Thread(target=guarded, name=name, daemon=True)
    thread.start()
    return thread


def serve(name: str, turn: Callable[[], bool], failed: Failed) -> threading.Thread:
    """Start a daemon thread that calls `turn` until that returns False. `failed` is called with what a turn raises.

    The thread goes on then: what waits for its next turns would wait forever.
    """

    def run() -> None:
        while True:
            try:
                if not turn():
                    return
            except RAISED as error:
                _log.exception("a turn of the thread %s has failed", name)
                failed(error)

    return start_thread(name, run, failed)
