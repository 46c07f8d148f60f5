"""How records of our logs become lines: none shows what is secret, and none is without an end."""

from __future__ import annotations

import logging

from penstock.common.text.secrets import told


class LogFormat(logging.Formatter):
    """As logging has it. Errors of penstock's own hide passwords themselves, those of libraries and users do not."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, with its traceback."""
        return told(super().format(record))
