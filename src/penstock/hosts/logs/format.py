"""The format of log lines: secrets are hidden, and every record ends with a line end."""

from __future__ import annotations

import logging

from penstock.common.text.secrets import told


class LogFormat(logging.Formatter):
    """A formatter. Errors of penstock hide passwords themselves, those of libraries and users do not."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with its traceback."""
        return told(super().format(record))
