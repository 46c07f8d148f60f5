"""How records become lines."""

from __future__ import annotations

import logging
import sys

from penstock.hosts.logs.format import LogFormat


def test_a_traceback_shows_no_secret_and_has_an_end() -> None:
    """An error of a library's names the URL that it could not open, with its password."""
    try:
        raise ValueError(f"postgresql://me:hunter2@host {'a' * 100_000}")
    except ValueError:
        record = logging.LogRecord("a", logging.ERROR, "", 0, "failed", None, sys.exc_info())
    logging.Formatter().format(record)
    line = LogFormat().format(record)
    assert line.startswith("failed\nTraceback") and "hunter2" not in line
    assert len(line) < 40_000 and "more characters" in line
