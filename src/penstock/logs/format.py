"""How records of our logs become lines: no traceback shows what is secret."""

from __future__ import annotations

import logging
from types import TracebackType

from penstock.common.secrets import told


class LogFormat(logging.Formatter):
    """As logging has it. Errors of penstock's own hide passwords themselves, those of libraries and users do not."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, with its traceback."""
        if record.exc_info:
            # Another handler may have kept it as it is.
            record.exc_text = None
        return super().format(record)

    def formatException(  # noqa: N802
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        """The traceback, with stars for what is secret, and not without an end."""
        return told(super().formatException(ei))
