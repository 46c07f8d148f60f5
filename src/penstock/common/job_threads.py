"""Threads that a job needs. Their errors are reported: if such a thread ended silently, the job would wait forever."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from penstock.common.functions.user_calls import RAISED

_log = logging.getLogger(__name__)

OnError = Callable[[BaseException], object]
"""Receives an unexpected error on the thread where it was raised. It must not raise."""


def start_thread(name: str, run: Callable[[], object], on_error: OnError) -> threading.Thread:
    """Start a daemon thread. An error that ends it is logged and passed to `on_error`."""

    def guarded() -> None:
        try:
            run()
        except RAISED as error:
            _log.exception("the thread %s ended with an error", name)
            on_error(error)

    thread = threading.Thread(target=guarded, name=name, daemon=True)
    thread.start()
    return thread


def start_loop(name: str, turn: Callable[[], bool], on_error: OnError) -> threading.Thread:
    """Start a daemon thread that calls `turn` until it returns False. An error of a turn is passed to `on_error`.

    The thread then continues, because others wait for its next turns.
    """

    def run() -> None:
        while True:
            try:
                if not turn():
                    return
            except RAISED as error:
                _log.exception("a turn of the thread %s failed", name)
                on_error(error)

    return start_thread(name, run, on_error)
