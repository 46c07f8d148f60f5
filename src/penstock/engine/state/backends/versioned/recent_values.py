"""What an external store has said, or was told, lately: whoever owns key groups is the only one who writes to them."""

from __future__ import annotations

from typing import Any

ABSENT: Any = object()


class RecentValues:
    """Values by key: at least of the `entries` that were used last, at most of twice as many.

    None: the store has no value. Two generations cost less than an order of all entries, which changes with each use.

    One thread reads and writes, another one only writes what the first one asks for not before it is written.
    """

    def __init__(self, entries: int) -> None:
        self._entries = max(entries, 1)
        self._young: dict[bytes, bytes | None] = {}
        self._old: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> Any:
        """The value, None, or ABSENT if it is not known."""
        value = self._young.get(key, ABSENT)
        if value is ABSENT:
            value = self._old.get(key, ABSENT)
            if value is not ABSENT:
                self.put(key, value)
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        """This is the value now."""
        if len(self._young) >= self._entries:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def clear(self) -> None:
        """Nothing is known."""
        self._young, self._old = {}, {}
