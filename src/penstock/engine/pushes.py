"""Pushes: the empty row that makes Spark let go of the last one.

The JVM beside a reading worker asks for the next row before it hands one over. So the last row of a burst is stuck
until any other row comes to that reader: a buffer after which nothing is written to its target for a moment is followed
by one empty row to the same target. It costs nothing while data flows, or while nothing does.
"""

from __future__ import annotations

PUSH_NS = 1_000_000


class Pushes:
    """Which targets are owed a push, oldest first."""

    def __init__(self) -> None:
        self._written: dict[int, int] = {}

    def wrote(self, target: int, now_ns: int) -> None:
        """A row was written to `target`."""
        self._written.pop(target, None)
        self._written[target] = now_ns

    def due(self, now_ns: int) -> list[int]:
        """The targets to which nothing was written for long enough; they are owed nothing then."""
        due = []
        for target, at in self._written.items():
            if now_ns - at < PUSH_NS:
                break
            due.append(target)
        for target in due:
            del self._written[target]
        return due

    def next_ns(self) -> int | None:
        """When the next push is due."""
        return next(iter(self._written.values())) + PUSH_NS if self._written else None
