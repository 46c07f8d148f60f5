"""Pushes: the empty row that makes Spark deliver the row before it.

The JVM beside a reading worker fetches the next row before it hands a row over. So the last row of a burst is delivered
only when another row arrives for that reader. A buffer after which nothing is written to its target for a millisecond
is therefore followed by one empty row to the same target. It costs nothing while data flows, or while none does.

A slot that has no work left, and whose buffer timeout is longer than that millisecond, need not wait: the push goes out
in one batch with the buffer. docs/internals/decisions/0007-pushes.md has the figures.
"""

from __future__ import annotations

from collections.abc import Iterable

PUSH_NS = 1_000_000


class Pushes:
    """The targets that need a push, the one written to longest ago first. `at_once`: an idle slot does not wait."""

    def __init__(self, at_once: bool) -> None:
        # Target -> time of its last row, in nanoseconds. Dicts keep the order of insertion: the oldest comes first.
        self._written: dict[int, int] = {}
        self._at_once = at_once

    def due(self, rows: Iterable[tuple[int, bytes]], now_ns: int, busy: bool) -> list[int]:
        """The targets to push together with `rows`, which are about to be written. They need no other push then."""
        written = self._written
        for target, _ in rows:
            # Out and in again: it moves to the end of the order.
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
        """When the next push is due, in monotonic nanoseconds; None if no target needs one."""
        return next(iter(self._written.values())) + PUSH_NS if self._written else None
