"""Fewer subtasks, but only where they were enough for some time: several small steps down become one.

Source: FLINK-36018, job.autoscaler.scale-down.interval.
"""

from __future__ import annotations

from collections import deque


class DelayedScaleDown:
    """Of one job. Vertices that have one parallelism are one group."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._since_ms: dict[int, int] = {}
        self._needed: dict[int, deque[tuple[int, int]]] = {}
        """By group: when so many would have been enough, the most first: later ones that are higher replace lower."""

    def clear(self) -> None:
        """All tasks start again."""
        self._since_ms.clear()
        self._needed.clear()

    def withdraw(self, group: int) -> None:
        """The group needs all that it has."""
        self._since_ms.pop(group, None)
        self._needed.pop(group, None)

    def propose(self, group: int, parallelism: int, now_ms: int) -> int | None:
        """The group needs fewer. Returns what it was to have at the most within the interval; None: not yet."""
        since_ms = self._since_ms.setdefault(group, now_ms)
        needed = self._needed.setdefault(group, deque())
        while needed and needed[-1][1] <= parallelism:
            needed.pop()
        needed.append((now_ms, parallelism))
        while needed[0][0] < now_ms - self._interval_ms:
            needed.popleft()
        return needed[0][1] if now_ms - since_ms >= self._interval_ms else None
