"""What the client library logs, in moderation."""

from __future__ import annotations

import logging

_AGAIN_S = 10.0
_TEXTS_MAX = 1000


class Seldom(logging.Filter):
    """Lets the same text through once in ten seconds: a client tells twenty times a second that a broker is away."""

    def __init__(self) -> None:
        super().__init__()
        self._told_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether `record` is to be logged. Texts that differ in "(after 3ms in state CONNECT)" are the same."""
        text = record.getMessage().partition(" (after ")[0]
        told_s = self._told_s.get(text)
        if told_s is not None and record.created - told_s < _AGAIN_S:
            return False
        if len(self._told_s) == _TEXTS_MAX:
            self._told_s.clear()
        self._told_s[text] = record.created
        return True
