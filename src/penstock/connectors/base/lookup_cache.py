"""What was found by key, the newest of it, for some time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any


class LookupCache:
    """At most `max_rows` keys with the rows of each, also with none; the one used least recently goes first."""

    def __init__(self, max_rows: int, expire_after_s: float) -> None:
        self._max_rows = max_rows
        self._expire_after_s = expire_after_s
        self._rows: OrderedDict[Hashable, tuple[float, list[Any]]] = OrderedDict()

    def get(self, key: Hashable, now_s: float) -> list[Any] | None:
        """The rows of the key; None if they are not here, or too old."""
        found = self._rows.get(key)
        if found is None:
            return None
        expires_s, rows = found
        if now_s >= expires_s:
            del self._rows[key]
            return None
        self._rows.move_to_end(key)
        return rows

    def put(self, key: Hashable, rows: list[Any], now_s: float) -> None:
        """Keep the rows of the key from now on."""
        if not self._max_rows:
            return
        self._rows[key] = now_s + self._expire_after_s, rows
        self._rows.move_to_end(key)
        if len(self._rows) > self._max_rows:
            self._rows.popitem(last=False)
