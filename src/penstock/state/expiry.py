"""When entries of a state with a time to live are examined: entry keys by the time of their expiry, in coarse steps.

An entry that is written again is added to a later step and stays in the earlier one, where it is found to be alive. So
a write costs one dict entry, whatever was stored before, and entries that are never accessed again are removed, too.
With state in a store nothing is remembered of its entries, which may be more than fit into memory: they are scanned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

_STEPS = 8
"""An entry is removed at most 1/_STEPS of its time to live after it has expired."""
_SCANS = 2
"""How often all entries are looked at in a time to live, where nothing is remembered of them."""
_SCANNING_SHARE = 0.1
"""The part of the time in which they are looked at, at most."""
_ENTRY_MS = 0.02
"""What it takes to look at one, about. Not measured: time also passes between two parts of a scan."""


class Expiry:
    """Of one state. `alive(entry key)` removes what has expired; it returns when the rest will expire (ms), or None."""

    def __init__(self, ttl_ms: int, alive: Callable[[Any], int | None]) -> None:
        self._width_ms = max(1, ttl_ms // _STEPS)
        self._alive = alive
        self._steps: dict[int, dict[Any, None]] = {}
        self.next_ms: int | None = None
        """When `expire` has something to do."""

    def touch(self, entry_key: Any, expires_ms: int) -> None:
        """The entry at `entry_key` expires at `expires_ms`."""
        step = expires_ms // self._width_ms + 1
        entry_keys = self._steps.get(step)
        if entry_keys is None:
            entry_keys = self._steps[step] = {}
            at_ms = step * self._width_ms
            if self.next_ms is None or at_ms < self.next_ms:
                self.next_ms = at_ms
        entry_keys[entry_key] = None

    def expire(self, now_ms: int, entries_max: int) -> int:
        """Examine entries that may have expired, at most `entries_max`. Returns how many were examined."""
        looked_at = 0
        while self.next_ms is not None and self.next_ms <= now_ms and looked_at < entries_max:
            step = self.next_ms // self._width_ms
            entry_keys = self._steps[step]
            while entry_keys and looked_at < entries_max:
                entry_key, _ = entry_keys.popitem()
                looked_at += 1
                expires_ms = self._alive(entry_key)
                if expires_ms is not None and expires_ms // self._width_ms + 1 > step:
                    self.touch(entry_key, expires_ms)
            if not entry_keys:
                del self._steps[step]
                self.next_ms = min(self._steps) * self._width_ms if self._steps else None
        return looked_at

    def clear(self) -> None:
        """Forget all entries: the state was cleared."""
        self._steps.clear()
        self.next_ms = None


class ExpiryScan(Expiry):
    """Looks at all entries, again and again, and remembers nothing of them: for state that is larger than memory.

    `entry_keys` goes through what there is, in any order; an entry key may come twice.
    """

    def __init__(
        self,
        ttl_ms: int,
        alive: Callable[[Any], int | None],
        entry_keys: Callable[[], Iterator[Any]],
        first_ms: int,
    ) -> None:
        super().__init__(ttl_ms, alive)
        self._period_ms = max(1, ttl_ms // _SCANS)
        self._entry_keys = entry_keys
        self._rest: Iterator[Any] | None = None
        self._looked_at = 0
        self._any_alive = False
        self.next_ms = first_ms

    def touch(self, entry_key: Any, expires_ms: int) -> None:
        self._any_alive = True
        if self.next_ms is None:
            self.next_ms = expires_ms

    def expire(self, now_ms: int, entries_max: int) -> int:
        if self.next_ms is None or self.next_ms > now_ms:
            return 0
        if self._rest is None:
            self._rest, self._looked_at, self._any_alive = self._entry_keys(), 0, False
        looked_at = 0
        for entry_key in islice(self._rest, entries_max):
            looked_at += 1
            if self._alive(entry_key) is not None:
                self._any_alive = True
        self._looked_at += looked_at
        if looked_at < entries_max:
            self._rest = None
            pause_ms = max(self._period_ms, int(self._looked_at * _ENTRY_MS / _SCANNING_SHARE))
            self.next_ms = now_ms + pause_ms if self._any_alive else None
        return looked_at

    def clear(self) -> None:
        super().clear()
        self._rest = None
