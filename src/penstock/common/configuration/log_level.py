"""Which log records are written, by Flink's names."""

from __future__ import annotations

from enum import Enum


class LogLevel(Enum):
    """A level of `logging`, by the name that Flink and Log4j have for it; WARNING is Python's for WARN."""

    TRACE = 5
    DEBUG = 10
    INFO = 20
    WARN = 30
    WARNING = 30
    ERROR = 40
