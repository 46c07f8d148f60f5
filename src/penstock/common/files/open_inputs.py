"""Which inputs this process is reading: for the report of a process that crashes meanwhile.

Libraries in C can crash on damaged input, and then nothing is left in the process that could raise an error. So the
names are in a file, which what finds the process gone reads (`hosts/spark/worker/crash_reports.py`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from penstock.common.text.secrets import without_passwords

_open: dict[object, str] = {}
_recorded: list[int] = []
"""The descriptor of the file; empty: nothing is recorded."""


def record_in(path: Path) -> None:
    """Record the names of open inputs in this file from now on. Raises OSError."""
    stop_recording()
    _recorded.append(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    _record()


def stop_recording() -> None:
    """Close the file."""
    while _recorded:
        os.close(_recorded.pop())


def recorded_in(path: Path) -> list[str]:
    """Return what a process that has ended had open."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_text(errors="surrogateescape").splitlines()
    return []


@contextlib.contextmanager
def reading_input(name: str) -> Iterator[None]:
    """Record that the process reads this input."""
    token = object()
    _open[token] = without_passwords(name).replace("\n", "\\n")
    _record()
    try:
        yield
    finally:
        del _open[token]
        _record()


def _record() -> None:
    for descriptor in _recorded:
        # Missed only if the process crashes.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, "\n".join([*_open.values()]).encode(errors="surrogateescape"), 0)
