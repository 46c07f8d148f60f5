"""A log: a file that is rotated, with lines in Flink's form."""

from __future__ import annotations

import logging
import logging.handlers
from pathlib import Path

from penstock.hosts.logs.format import LogFormat
from penstock.hosts.logs.settings import LogSettings

_TIME_AND_LEVEL = "%(asctime)s %(levelname)-7s"
"""The local time in a form that sorts: `2013-01-01 05:15:00,123`."""
_LOGGER_AND_MESSAGE = "%(name)s - %(message)s"


class LogFile(logging.handlers.RotatingFileHandler):
    """Handle records by writing to `name`.log in a job's folder; each line names the job. Raises OSError.

    `names_task`: each record has an attribute `task`, the subtask that wrote it, which the line shows.
    """

    def __init__(self, settings: LogSettings, name: str, names_task: bool = False) -> None:
        path = Path(settings.folder) / f"{name}.log"
        super().__init__(
            path, maxBytes=settings.max_bytes, backupCount=settings.backups, encoding="utf-8", errors="backslashreplace"
        )
        origin = settings.job.mark + " %(task)s" * names_task
        self.setFormatter(LogFormat(f"{_TIME_AND_LEVEL} [{origin}] {_LOGGER_AND_MESSAGE}"))

    def append(self, lines: str) -> None:
        """Write lines that another process has formatted."""
        record = logging.makeLogRecord({"msg": lines})
        formatter, self.formatter = self.formatter, logging.Formatter("%(message)s")
        try:
            self.emit(record)
        finally:
            self.formatter = formatter

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Ignore the error and lose the line: a full disk must not end a job because of its log."""
