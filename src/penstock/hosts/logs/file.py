"""One log: a file that is rotated, lines as Flink writes them."""

from __future__ import annotations

import logging
import logging.handlers
from pathlib import Path

from penstock.hosts.logs.format import LogFormat
from penstock.hosts.logs.settings import LogSettings

_BEGINS = "%(asctime)s %(levelname)-7s"
"""With the local time, which sorts: `2013-01-01 05:15:00,123`."""
_ENDS = "%(name)s - %(message)s"


class LogFile(logging.handlers.RotatingFileHandler):
    """The file `name`.log in the folder of a job, whose mark each line has. Raises OSError if it can't be opened.

    `of_task`: each record has the place where it was written, in its `task`.
    """

    def __init__(self, settings: LogSettings, name: str, of_task: bool = False) -> None:
        path = Path(settings.folder) / f"{name}.log"
        super().__init__(
            path, maxBytes=settings.max_bytes, backupCount=settings.backups, encoding="utf-8", errors="backslashreplace"
        )
        place = settings.job.mark + " %(task)s" * of_task
        self.setFormatter(LogFormat(f"{_BEGINS} [{place}] {_ENDS}"))

    def append(self, lines: str) -> None:
        """Lines that are complete as they are, written by another process."""
        record = logging.makeLogRecord({"msg": lines})
        formatter, self.formatter = self.formatter, logging.Formatter("%(message)s")
        try:
            self.emit(record)
        finally:
            self.formatter = formatter

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """A line that can't be written is lost: a full disk must not end a job for the sake of its log."""
