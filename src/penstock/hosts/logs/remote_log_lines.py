"""Log lines of a worker on another machine, which its heartbeats carry to the driver."""

from __future__ import annotations

import threading

CHARACTERS_MAX = 1 << 16
"""Maximum number of characters in one heartbeat. A function that prints constantly must not delay control messages."""


class RemoteLogLines:
    """Collect lines between two heartbeats. If there are too many, the last line says how many are missing.

    `full_log`: the machine and the file that have all lines.
    """

    def __init__(self, full_log: str, characters_max: int = CHARACTERS_MAX) -> None:
        self._full_log = full_log
        self._characters_max = characters_max
        self._lines: list[str] = []
        self._characters = 0
        self._omitted = 0
        self._lock = threading.Lock()

    def add(self, line: str) -> None:
        """Add a line, without its line end. Called by any thread."""
        with self._lock:
            if self._characters + len(line) > self._characters_max:
                self._omitted += 1
                return
            self._lines.append(line)
            self._characters += len(line)

    def drain(self) -> str:
        """Remove and return the lines to be sent now; empty if there are none. Called by any thread."""
        with self._lock:
            lines, self._lines = self._lines, []
            omitted, self._omitted = self._omitted, 0
            self._characters = 0
        if omitted:
            lines.append(f"... {omitted} more lines in {self._full_log}")
        return "\n".join(lines)
