"""Expire entries of a state with a time to live: examine them soon after they may have expired, a few at a time.

On the heap a wheel (`ExpiryWheel`) has a list of entry keys for each step of time. An entry is on it once from its
creation on, however often it is written. When its step comes, it has expired, or it moves to the step in which it will
expire. This costs a pointer per entry, and one examination per time to live.

State in a store is scanned (`ExpiryScan`), since its entry keys may not fit into memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

_STEPS = 8
"""An entry is removed at most 1/_STEPS of its time to live after it has expired."""
_FILED_MIN = 1_024
"""The least number of entry keys at which a wheel is swept."""
_SCANS = 2
"""How often a time to live all entries are scanned."""
_SCANNING_SHARE = 0.1
"""The largest share of the time that scans take."""
_ENTRY_MS = 0.02
"""Estimated time to examine an entry (ms). It is not measured while scanning, since a scan is interrupted."""


class Expiry(ABC):
    """The expiry of one state.

    `remove_expired`: removes the expired parts of an entry; returns when the rest will expire (ms), or None.
    """

    def __init__(self, ttl_ms: int, remove_expired: Callable[[Any], int | None]) -> None:
        self.ttl_ms = ttl_ms
        self._remove_expired = remove_expired
        self.next_ms: int | None = None
        """When `expire` is due (ms); None: it has nothing to do."""

    @abstractmethod
    def touch(self, entry_key: Any, expires_ms: int) -> None:
        """Note that an entry is about to be written and expires at `expires_ms`."""

    def merged(self, entry_key: Any, expires_ms: int) -> None:
        """Note that other entries were merged into an entry, which expires at `expires_ms`."""
        self.touch(entry_key, expires_ms)

    @abstractmethod
    def expire(self, now_ms: int, entries_max: int) -> int:
        """Examine entries that may have expired, at most `entries_max`. Returns how many were examined."""

    def clear(self) -> None:
        """Forget all entries: the state was cleared."""
        self.next_ms = None


class ExpiryWheel(Expiry):
    """Holds the keys of all entries. `is_filed(entry key)`: whether it is known to be on the wheel, or must be added.

    A removed entry stays on the wheel until its step comes, and if it is created again it is on it twice. So when the
    number of entry keys has doubled, the wheel is swept: keys of removed entries are dropped.
    """

    def __init__(
        self, ttl_ms: int, remove_expired: Callable[[Any], int | None], is_filed: Callable[[Any], bool]
    ) -> None:
        super().__init__(ttl_ms, remove_expired)
        self._width_ms = max(1, ttl_ms // _STEPS)
        self._is_filed = is_filed
        self._steps: dict[int, list[Any]] = {}
        self._filed = 0
        self._filed_max = _FILED_MIN
        self._sweep: Iterator[None] | None = None

    def touch(self, entry_key: Any, expires_ms: int) -> None:
        if not self._is_filed(entry_key):
            self._file(entry_key, expires_ms)

    def merged(self, entry_key: Any, expires_ms: int) -> None:
        self._file(entry_key, expires_ms)

    def restored(self, entry_keys: Iterable[Any], examine_ms: int) -> None:
        """Add restored entries, and examine them at `examine_ms`."""
        filed = self._step_of(examine_ms)
        before = len(filed)
        filed.extend(entry_keys)
        self._filed += len(filed) - before
        self._filed_max = max(2 * self._filed, _FILED_MIN)

    def _file(self, entry_key: Any, expires_ms: int) -> None:
        self._step_of(expires_ms).append(entry_key)
        self._filed += 1
        if self._filed > self._filed_max and self._sweep is None:
            self._sweep, self.next_ms = self._swept(), 0

    def _step_of(self, expires_ms: int) -> list[Any]:
        step = expires_ms // self._width_ms + 1
        entry_keys = self._steps.get(step)
        if entry_keys is None:
            entry_keys = self._steps[step] = []
            at_ms = step * self._width_ms
            if self.next_ms is None or at_ms < self.next_ms:
                self.next_ms = at_ms
        return entry_keys

    def expire(self, now_ms: int, entries_max: int) -> int:
        if self._sweep is not None:
            return self._continue_sweep(entries_max)
        examined = 0
        while self.next_ms is not None and self.next_ms <= now_ms and examined < entries_max:
            step = self.next_ms // self._width_ms
            entry_keys = self._steps[step]
            while entry_keys and examined < entries_max:
                entry_key = entry_keys.pop()
                examined += 1
                self._filed -= 1
                expires_ms = self._remove_expired(entry_key)
                if expires_ms is not None:
                    # Not into this step, in which it would be examined again immediately.
                    self._file(entry_key, max(expires_ms, step * self._width_ms))
            if not entry_keys:
                del self._steps[step]
                self._filed_max = max(_FILED_MIN, min(self._filed_max, 2 * self._filed))
                self._find_next()
        return examined

    def _find_next(self) -> None:
        self.next_ms = min(self._steps) * self._width_ms if self._steps else None

    def _continue_sweep(self, entries_max: int) -> int:
        assert self._sweep is not None
        examined = sum(1 for _ in islice(self._sweep, entries_max))
        if examined < entries_max:
            self._sweep = None
            self._filed_max = max(2 * self._filed, _FILED_MIN)
            self._find_next()
        return examined

    def _swept(self) -> Iterator[None]:
        """Go through the wheel, one entry at a time, and drop removed entries and duplicates within a step."""
        for step, entry_keys in list(self._steps.items()):
            left = self._steps[step] = []
            seen = set()
            while entry_keys:
                entry_key = entry_keys.pop()
                if entry_key not in seen and self._remove_expired(entry_key) is not None:
                    seen.add(entry_key)
                    left.append(entry_key)
                else:
                    self._filed -= 1
                yield

    def clear(self) -> None:
        super().clear()
        self._steps.clear()
        self._filed, self._filed_max, self._sweep = 0, _FILED_MIN, None


class ExpiryScan(Expiry):
    """Scans all entries repeatedly and holds no entry keys: for state that is larger than memory.

    `entry_keys` yields all entry keys in any order; a key may occur twice.
    """

    def __init__(
        self,
        ttl_ms: int,
        remove_expired: Callable[[Any], int | None],
        entry_keys: Callable[[], Iterator[Any]],
        first_ms: int,
    ) -> None:
        super().__init__(ttl_ms, remove_expired)
        self._period_ms = max(1, ttl_ms // _SCANS)
        self._entry_keys = entry_keys
        self._rest: Iterator[Any] | None = None
        self._examined = 0
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
            self._rest, self._examined, self._any_alive = self._entry_keys(), 0, False
        examined = 0
        for entry_key in islice(self._rest, entries_max):
            examined += 1
            if self._remove_expired(entry_key) is not None:
                self._any_alive = True
        self._examined += examined
        if examined < entries_max:
            self._rest = None
            pause_ms = max(self._period_ms, int(self._examined * _ENTRY_MS / _SCANNING_SHARE))
            self.next_ms = now_ms + pause_ms if self._any_alive else None
        return examined

    def clear(self) -> None:
        super().clear()
        self._rest = None
