"""When entries of a state with a time to live are examined: entry keys by the time of their expiry, in coarse steps.

An entry that is written again is added to a later step and stays in the earlier one, where it is found to be alive. So
a write costs one dict entry, whatever was stored before, and entries that are never accessed again are removed, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_STEPS = 8
"""An entry is removed at most 1/_STEPS of its time to live after it has expired."""


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
