"""What an external store has said, or was told, lately: whoever owns key groups is the only one who writes to them."""

from __future__ import annotations

from typing import Any

ABSENT: Any = object()


class RecentValues:
    """Values by key, up to about `entries_max`: those that were used lately. None: the store has no value.

    One thread reads and writes, another one only writes what the first one asks for not before it is written.
    """

    def __init__(self, entries_max: int) -> None:
        self._half = max(entries_max // 2, 1)
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
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def clear(self) -> None:
        """Nothing is known."""
        self._young, self._old = {}, {}
