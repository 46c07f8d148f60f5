"""Retries of calls to a server that is unavailable for a moment."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from penstock.common.errors import JobError

_log = logging.getLogger(__name__)

T = TypeVar("T")


class TransientError(JobError):
    """An error after which another try may succeed: a lost connection, a server that starts or stops."""


def retried(call: Callable[[], T], max_retries: int, pause: Callable[[float], None] = time.sleep) -> T:
    """Return the result of `call`. Repeat it after a TransientError, at most `max_retries` times.

    Before retry n, `pause` waits for n seconds, as in Flink's JDBC sink.
    """
    tries = 0
    while True:
        try:
            return call()
        except TransientError as error:
            if tries >= max_retries:
                raise
            tries += 1
            _log.warning("retrying in %d s, retry %d of %d: %s", tries, tries, max_retries, error)
            pause(tries)
