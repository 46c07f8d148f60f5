"""Pushes: the empty row that makes Spark let go of the last one.

The JVM beside a reading worker asks for the next row before it hands one over. So the last row of a burst is stuck
until any other row comes to that reader: a buffer after which nothing is written to its target for a moment is followed
by one empty row to the same target. It costs nothing while data flows, or while nothing does.

A slot that has nothing left to do, and whose buffers leave at longer intervals than that moment, need not wait: the
push goes out with the buffer, in one batch.
"""

from __future__ import annotations

from collections.abc import Iterable

PUSH_NS = 1_000_000


class Pushes:
    """Which targets are owed a push, oldest first. `at_once`: a slot that is not busy pushes without waiting."""

    def __init__(self, at_once: bool) -> None:
        self._written: dict[int, int] = {}
        self._at_once = at_once

    def due(self, rows: Iterable[tuple[int, bytes]], now_ns: int, busy: bool) -> list[int]:
        """`rows` are about to be written. The targets to push with them; they are owed nothing then."""
        written = self._written
        for target, _ in rows:
            written.pop(target, None)
            written[target] = now_ns
        if self._at_once and not busy:
            due = list(written)
            written.clear()
            return due
        due = []
        for target, at in written.items():
            if now_ns - at < PUSH_NS:
                break
            due.append(target)
        for target in due:
            del written[target]
        return due

    def next_ns(self) -> int | None:
        """When the next push is due."""
        return next(iter(self._written.values())) + PUSH_NS if self._written else None
