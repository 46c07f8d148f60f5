"""One log: a file that is rotated, lines as Flink writes them."""

from __future__ import annotations

import logging
import logging.handlers
from pathlib import Path

from penstock.logs.settings import LogSettings

FORMAT = "%(asctime)s %(levelname)-7s %(name)s - %(message)s"
"""Begins with the local time, which sorts: `2013-01-01 05:15:00,123`."""


class LogFile(logging.handlers.RotatingFileHandler):
    """The file `name`.log in the folder of a job. Raises OSError if it can't be opened."""

    def __init__(self, settings: LogSettings, name: str, line_format: str = FORMAT) -> None:
        path = Path(settings.folder) / f"{name}.log"
        super().__init__(
            path, maxBytes=settings.max_bytes, backupCount=settings.backups, encoding="utf-8", errors="backslashreplace"
        )
        self.setFormatter(logging.Formatter(line_format))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """A line that can't be written is lost: a full disk must not end a job for the sake of its log."""
