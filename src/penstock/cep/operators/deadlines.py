"""When the first time limit of each live key ends: kept in memory, so that a partial match costs no timer.

Keys that are stored have timers of keyed state instead, which `KeyStates.store` sets: a snapshot is the only reader of
timers, and most partial matches begin and end between two snapshots.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.cep.partial_matches import NEVER, PartialMatches

_FEW = 256


class Deadlines:
    """Keys by deadline. An entry counts if the key is live and its `armed_ms` is that of the entry."""

    def __init__(self, live: Mapping[Any, PartialMatches]) -> None:
        self._live = live
        self._keys: dict[int, list[Any]] = {}
        self._times: list[int] = []
        """A heap of the deadlines that have keys."""
        self._count = 0

    def add(self, deadline_ms: int, key: Any) -> None:
        """Note the deadline of a key."""
        if self._count > _FEW and self._count > 2 * len(self._live):
            self._rebuild()
        self._add(deadline_ms, key)

    def _add(self, deadline_ms: int, key: Any) -> None:
        keys = self._keys.get(deadline_ms)
        if keys is None:
            self._keys[deadline_ms] = [key]
            heapq.heappush(self._times, deadline_ms)
        else:
            keys.append(key)
        self._count += 1

    def earliest(self) -> int | None:
        """Return the first deadline (ms), perhaps one that no longer counts; None without any."""
        return self._times[0] if self._times else None

    def due(self, until: int) -> Iterator[tuple[Any, PartialMatches]]:
        """Remove and yield the keys whose deadlines are over at `until`, in order of time. They have no entry then."""
        live = self._live
        while self._times and self._times[0] <= until:
            deadline_ms = heapq.heappop(self._times)
            keys = self._keys.pop(deadline_ms)
            self._count -= len(keys)
            for key in keys:
                partial = live.get(key)
                if partial is not None and partial.armed_ms == deadline_ms:
                    partial.armed_ms = NEVER
                    yield key, partial

    def clear(self) -> None:
        """Remove all entries."""
        self._keys.clear()
        self._times.clear()
        self._count = 0

    def _rebuild(self) -> None:
        """Leave out what no longer counts, which is at least half: otherwise each match would leave an entry."""
        self.clear()
        for key, partial in self._live.items():
            if partial.armed_ms != NEVER:
                self._add(partial.armed_ms, key)
