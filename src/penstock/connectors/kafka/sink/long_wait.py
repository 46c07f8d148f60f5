"""A sink that waits for brokers, and says so: a job that stands still would not tell why."""

from __future__ import annotations

import logging
import time

_log = logging.getLogger(__name__)

LONG_WAIT_S = 5.0
_AGAIN_S = 30.0


class LongWait:
    """Begins when it is made. Used by the thread of the task, so that each line of the log has the operator's name."""

    def __init__(self, brokers: str | None, first_s: float) -> None:
        """`brokers`: as the user has named them. `first_s`: after how many seconds the log says so."""
        self._brokers = brokers
        self._first_s = first_s
        self._left: int | None = None
        self._tell_at_s = 0.0
        self._begin()

    def goes_on(self, messages: int, last_told: str | None) -> None:
        """Once a second or so. `messages` wait, `last_told` is what the client has said last; warn if it is for long.

        With fewer messages than before, brokers take them: the wait begins anew.
        """
        if self._left is not None and messages < self._left:
            self._begin()
        self._left = messages
        now_s = time.monotonic()
        if now_s < self._tell_at_s:
            return
        self._tell_at_s = now_s + _AGAIN_S
        _log.warning(
            "for %d s the Kafka brokers %s have taken nothing from this sink, and the job waits with it: %d messages "
            "are not written%s. It goes on when they answer; messages that wait for longer than message.timeout.ms "
            "fail the attempt. Whether they run, and whether a disk of theirs is full, is in the log of the brokers",
            now_s - self._since_s,
            self._brokers,
            messages,
            "" if last_told is None else f" ({last_told})",
        )

    def _begin(self) -> None:
        self._since_s = time.monotonic()
        self._tell_at_s = self._since_s + self._first_s
