"""The inputs that this process is reading, for the report of a crash.

Libraries in C can crash the process on damaged input, so it can't raise an error. Therefore the names of its inputs are
in a file, which the process that notices the crash reads (`hosts/spark/worker/crash_reports.py`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from penstock.common.text.secrets import without_secrets

_open: dict[object, str] = {}
_recorded: list[int] = []
"""The descriptor of the file; empty if nothing is recorded."""


def record_in(path: Path) -> None:
    """Record the names of open inputs in this file from now on. Raises OSError."""
    stop_recording()
    _recorded.append(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    _record()


def stop_recording() -> None:
    """Stop recording and close the file."""
    while _recorded:
        os.close(_recorded.pop())


def recorded_in(path: Path) -> list[str]:
    """Return the inputs that an ended process was reading."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_text(errors="surrogateescape").splitlines()
    return []


@contextlib.contextmanager
def reading_input(name: str) -> Iterator[None]:
    """Record that the process reads this input while the context is open."""
    token = object()
    _open[token] = without_secrets(name).replace("\n", "\\n")
    _record()
    try:
        yield
    finally:
        del _open[token]
        _record()


def _record() -> None:
    for descriptor in _recorded:
        # The record is needed only if the process crashes, so a failure to write it is ignored.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, "\n".join([*_open.values()]).encode(errors="surrogateescape"), 0)
