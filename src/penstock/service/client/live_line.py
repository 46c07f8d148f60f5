"""A line at the bottom of the terminal that is updated in place, below what the program prints."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, TextIO

from penstock.common.text.one_line import on_one_line

_BEGIN_AND_CLEAR = "\r\x1b[K"
_COLUMNS = 80
"""Columns of a terminal whose width is unknown."""


class LiveLine:
    """Show a line on a terminal; what is printed while it is shown appears above it. Without a terminal, do nothing.

    The line is on `terminal`, usually standard error. The program's standard output may be a file or a pipe.
    """

    def __init__(self, terminal: TextIO | None = None) -> None:
        self._terminal = terminal or sys.stderr
        self._lock = threading.RLock()
        self._is_shown = False
        self._at_begin_of_line = True
        self._before = self._placed = sys.stdout, sys.stderr
        self.is_on = self._terminal.isatty() and os.environ.get("TERM") != "dumb"

    def __enter__(self) -> LiveLine:
        if self.is_on:
            self._before = sys.stdout, sys.stderr
            self._placed = sys.stdout, sys.stderr = (self._above(self._before[0]), self._above(self._before[1]))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_on:
            self.clear()
            for name, before, ours in zip(("stdout", "stderr"), self._before, self._placed, strict=True):
                # A stream with which the program has replaced ours stays.
                if getattr(sys, name) is ours:
                    setattr(sys, name, before)
            self.is_on = False

    def show(self, text: str) -> None:
        """Show or update the line, unless the program has printed an incomplete line."""
        with self._lock:
            if self.is_on and self._at_begin_of_line:
                # Imported here, not at the top: most programs show no line.
                from rich.cells import cell_len, set_cell_size

                text, width = on_one_line(text), self._columns() - 1
                self._write(_BEGIN_AND_CLEAR + (text if cell_len(text) <= width else set_cell_size(text, width)))
                self._is_shown = True

    def clear(self) -> None:
        """Remove the line."""
        with self._lock:
            if self._is_shown:
                self._write(_BEGIN_AND_CLEAR)
                self._is_shown = False

    def write_above(self, stream: TextIO, text: str) -> int:
        """Write what the program prints."""
        with self._lock:
            self.clear()
            if text:
                self._at_begin_of_line = text.endswith("\n")
            return stream.write(text)

    def _columns(self) -> int:
        """Return the width: from COLUMNS, from standard output, which may not be a terminal, or from the terminal."""
        try:
            own = os.get_terminal_size(self._terminal.fileno()).columns
        except OSError:
            own = 0
        return shutil.get_terminal_size((own or _COLUMNS, 24)).columns

    def _write(self, text: str) -> None:
        # A closed terminal must not end the thread, or the program, that updates the line.
        with suppress(OSError):
            self._terminal.write(text)
            self._terminal.flush()

    def _above(self, stream: TextIO | None) -> Any:
        return _Above(stream, self) if stream is not None and stream.isatty() else stream


class _Above:
    """A stream of the program that writes to the terminal with the line."""

    def __init__(self, stream: TextIO, line: LiveLine) -> None:
        self._stream = stream
        self._line = line

    def write(self, text: str) -> int:
        return self._line.write_above(self._stream, text)

    def writelines(self, lines: Any) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
