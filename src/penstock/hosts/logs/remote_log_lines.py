"""Log lines of a worker whose log folder the driver cannot see: its heartbeats carry them."""

from __future__ import annotations

import threading

MOST_CHARACTERS = 1 << 16
"""Most characters in one heartbeat. A function that prints all the time must not delay control messages."""


class RemoteLogLines:
    """Lines since the last heartbeat. If there are too many, the last line says how many are missing.

    `where`: the file that has all lines, and its machine.
    """

    def __init__(self, where: str, most: int = MOST_CHARACTERS) -> None:
        self._where = where
        self._most = most
        self._lines: list[str] = []
        self._characters = 0
        self._left_out = 0
        self._lock = threading.Lock()

    def add(self, line: str) -> None:
        """Add a line, without its line end. Called by any thread."""
        with self._lock:
            if self._characters + len(line) > self._most:
                self._left_out += 1
                return
            self._lines.append(line)
            self._characters += len(line)

    def take(self) -> str:
        """Return the lines to be sent now; empty if there are none. Called by any thread."""
        with self._lock:
            lines, self._lines = self._lines, []
            left_out, self._left_out = self._left_out, 0
            self._characters = 0
        if left_out:
            lines.append(f"... {left_out} more lines in {self._where}")
        return "\n".join(lines)
