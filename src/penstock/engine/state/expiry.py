"""When entries of a state with a time to live are examined: soon after they may have expired, a few at a time.

On the heap by a wheel (`ExpiryWheel`): a list of entry keys for each step of time, in which an entry is once, from
when it is created, however often it is written. When its step comes it is examined: it has expired, or it goes into the
step in which it will. That is a pointer for each entry, and one look for each time to live.

With state in a store nothing is remembered of its entries, which may be more than fit into memory: they are scanned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

_STEPS = 8
"""An entry is removed at most 1/_STEPS of its time to live after it has expired."""
_FILED_MIN = 1_024
"""So many entry keys may be in a wheel before it is swept."""
_SCANS = 2
"""How often all entries are looked at in a time to live, where nothing is remembered of them."""
_SCANNING_SHARE = 0.1
"""The part of the time in which they are looked at, at most."""
_ENTRY_MS = 0.02
"""What it takes to look at one, about. Not measured: time also passes between two parts of a scan."""


class Expiry(ABC):
    """Of one state. `alive(entry key)` removes what has expired; it returns when the rest will expire (ms), or None."""

    def __init__(self, ttl_ms: int, alive: Callable[[Any], int | None]) -> None:
        self._ttl_ms = ttl_ms
        self._alive = alive
        self.next_ms: int | None = None
        """When `expire` has something to do."""

    @abstractmethod
    def touch(self, entry_key: Any, expires_ms: int) -> None:
        """The entry at `entry_key` is about to be written, and expires at `expires_ms`, then."""

    def merged(self, entry_key: Any, expires_ms: int) -> None:
        """The entry at `entry_key` was written with what others had, and expires at `expires_ms`."""
        self.touch(entry_key, expires_ms)

    @abstractmethod
    def expire(self, now_ms: int, entries_max: int) -> int:
        """Examine entries that may have expired, at most `entries_max`. Returns how many were examined."""

    def clear(self) -> None:
        """Forget all entries: the state was cleared."""
        self.next_ms = None


class ExpiryWheel(Expiry):
    """Remembers the key of each entry. `is_filed(entry key)`: whether it is certainly on the wheel. False adds it.

    An entry that is removed stays on the wheel until its step comes, and if it is created once more it is there twice.
    So when there are twice as many as there were, the wheel is swept: what is gone is left out.
    """

    def __init__(self, ttl_ms: int, alive: Callable[[Any], int | None], is_filed: Callable[[Any], bool]) -> None:
        super().__init__(ttl_ms, alive)
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
        """There are these entries already: examine them then."""
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
            return self._go_on_sweeping(entries_max)
        looked_at = 0
        while self.next_ms is not None and self.next_ms <= now_ms and looked_at < entries_max:
            step = self.next_ms // self._width_ms
            entry_keys = self._steps[step]
            while entry_keys and looked_at < entries_max:
                entry_key = entry_keys.pop()
                looked_at += 1
                self._filed -= 1
                expires_ms = self._alive(entry_key)
                if expires_ms is not None:
                    # Not into this step, in which it would be examined again at once.
                    self._file(entry_key, max(expires_ms, step * self._width_ms))
            if not entry_keys:
                del self._steps[step]
                self._filed_max = max(_FILED_MIN, min(self._filed_max, 2 * self._filed))
                self._find_next()
        return looked_at

    def _find_next(self) -> None:
        self.next_ms = min(self._steps) * self._width_ms if self._steps else None

    def _go_on_sweeping(self, entries_max: int) -> int:
        assert self._sweep is not None
        looked_at = sum(1 for _ in islice(self._sweep, entries_max))
        if looked_at < entries_max:
            self._sweep = None
            self._filed_max = max(2 * self._filed, _FILED_MIN)
            self._find_next()
        return looked_at

    def _swept(self) -> Iterator[None]:
        """Go through the wheel, an entry at a time, and leave out those that are gone or come twice in a step."""
        for step, entry_keys in list(self._steps.items()):
            left = self._steps[step] = []
            seen = set()
            while entry_keys:
                entry_key = entry_keys.pop()
                if entry_key not in seen and self._alive(entry_key) is not None:
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
