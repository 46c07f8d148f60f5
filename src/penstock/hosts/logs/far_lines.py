"""Lines of a worker whose folder of logs the driver does not see: they travel with its heartbeats."""

from __future__ import annotations

import threading

MOST_CHARACTERS = 1 << 16
"""What one heartbeat carries at most. A function that prints all the time must not hold up control messages."""


class FarLines:
    """What has been written since it was last taken. Beyond the most there is a line that says how many are missing.

    `where`: the file that has all of them, and its machine.
    """

    def __init__(self, where: str, most: int = MOST_CHARACTERS) -> None:
        self._where = where
        self._most = most
        self._lines: list[str] = []
        self._characters = 0
        self._left_out = 0
        self._lock = threading.Lock()

    def add(self, line: str) -> None:
        """Any thread's: a line was written, without the end of it."""
        with self._lock:
            if self._characters + len(line) > self._most:
                self._left_out += 1
                return
            self._lines.append(line)
            self._characters += len(line)

    def take(self) -> str:
        """Any thread's: the lines, which are sent now; empty if there are none."""
        with self._lock:
            lines, self._lines = self._lines, []
            left_out, self._left_out = self._left_out, 0
            self._characters = 0
        if left_out:
            lines.append(f"... {left_out} lines more, in {self._where}")
        return "\n".join(lines)
