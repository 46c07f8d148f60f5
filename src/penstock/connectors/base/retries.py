"""Another try for a call to a server that may be away for a moment."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from penstock.common.errors import JobError

_log = logging.getLogger(__name__)

T = TypeVar("T")


class TransientError(JobError):
    """Another try may succeed: a connection that was lost, a server that starts or stops."""


def retried(call: Callable[[], T], max_retries: int, pause: Callable[[float], None] = time.sleep) -> T:
    """The result of the call, which is made again after a TransientError, `max_retries` times at most.

    Before try n there are n seconds of waiting (`pause`), as in Flink's JDBC sink.
    """
    tries = 0
    while True:
        try:
            return call()
        except TransientError as error:
            if tries >= max_retries:
                raise
            tries += 1
            _log.warning("try again in %d s, attempt %d of %d: %s", tries, tries, max_retries, error)
            pause(tries)
