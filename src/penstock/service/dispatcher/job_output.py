"""Standard output and error of a job's process: files of bounded size, addressed by byte.

    output              from the first byte on
    output.00008388655  from that byte on: it continues the file before

The process itself starts a new file, so nothing is lost between two: from then on its descriptors lead there. The
newest two files are kept. Output that a child process still writes to an older one is not shown.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
from pathlib import Path
from typing import NamedTuple

OUTPUT_MAX = 8 << 20
"""Approximate bytes of one file."""
_NAME = "output"
_KEPT = 2
_STREAMS = (1, 2)
_CHECK_INTERVAL_S = 0.05
_CHECKS_MAX = 20
"""Most checks for open writes. A child process may keep writing forever."""


class OutputFile(NamedTuple):
    """A part of the output. `begin`: the number of bytes before it."""

    begin: int
    path: Path


class OutputGoneError(Exception):
    """The requested output is gone. `begin`: the first byte that is kept."""

    def __init__(self, begin: int) -> None:
        super().__init__(f"the job's output is kept from byte {begin:,} on; older parts were removed")
        self.begin = begin


def output_files(folder: Path) -> list[OutputFile]:
    """Return the files of the job with this folder, oldest first."""
    found = [
        OutputFile(int(path.suffix[1:] or 0), path)
        for path in folder.glob(f"{_NAME}*")
        if (path.name == _NAME or path.suffix[1:].isdigit()) and not path.is_dir()
    ]
    return sorted(found)


def newest_output(folder: Path) -> Path:
    """Return the file that a process of the job writes to; it may not exist yet."""
    return (output_files(folder) or [OutputFile(0, folder / _NAME)])[-1].path


def part_of_output(folder: Path, begin: int, most: int) -> bytes:
    """Read at most this many bytes; empty: no new ones. Raises OutputGoneError if that part was removed."""
    while True:
        files = output_files(folder)
        if files and begin < files[0].begin:
            raise OutputGoneError(files[0].begin)
        later = [file for file in files if file.begin > begin]
        before = [file for file in files if file.begin <= begin]
        if not before:
            # The job has not started.
            return b""
        offset = begin - before[-1].begin
        end = later[0].begin - before[-1].begin if later else offset + most
        # Removed since it was found: look again.
        with contextlib.suppress(FileNotFoundError), before[-1].path.open("rb") as file:
            file.seek(offset)
            return file.read(min(most, end - offset))


def keep_bounded(folder: Path, most: int = OUTPUT_MAX) -> None:
    """Start a new file if the newest is full. Called by the process that writes the output. Raises OSError."""
    files = output_files(folder)
    if not files or files[-1].path.stat().st_size < most:
        return
    part = folder / f".{_NAME}-{secrets.token_hex(4)}"
    descriptor = os.open(part, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        for stream in _STREAMS:
            os.dup2(descriptor, stream)
    finally:
        os.close(descriptor)
    begin = files[-1].begin + _settled_size(files[-1].path)
    part.rename(folder / f"{_NAME}.{begin:011d}")
    for old in files[: len(files) + 1 - _KEPT]:
        old.path.unlink(missing_ok=True)


def _settled_size(path: Path) -> int:
    """Return the size of a file that no descriptor leads to, once open writes are done.

    What they add after the start of the next file would be shown to no reader.
    """
    size = path.stat().st_size
    for _ in range(_CHECKS_MAX):
        time.sleep(_CHECK_INTERVAL_S)
        before, size = size, path.stat().st_size
        if size == before:
            break
    return size
