"""The format of log lines: secrets are hidden, and every record ends with a line end."""

from __future__ import annotations

import logging

from penstock.common.text.secrets import redacted


class LogFormat(logging.Formatter):
    """Hide passwords: errors of libraries and of users' functions contain them, unlike penstock's own errors."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with the traceback if the record has one."""
        return redacted(super().format(record))
