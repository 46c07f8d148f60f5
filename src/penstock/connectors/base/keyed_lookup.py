"""Base class of functions that join records with the rows that a server has for their keys."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from penstock.api.functions.asynchronous import AsyncFunction
from penstock.connectors.base.options import checked_at_least, checked_function
from penstock.connectors.base.retries import TransientError


class LookupCache:
    """Cache the rows of at most `max_rows` keys, also of keys without rows; evict the least recently used."""

    def __init__(self, max_rows: int, expire_after_s: float) -> None:
        self._max_rows = max_rows
        self._expire_after_s = expire_after_s
        self._rows: OrderedDict[Hashable, tuple[float, list[Any]]] = OrderedDict()

    def get(self, key: Hashable, now_s: float) -> list[Any] | None:
        """Return the rows of the key, or None if they are not cached or too old."""
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
        """Cache the rows of the key."""
        if not self._max_rows:
            return
        self._rows[key] = now_s + self._expire_after_s, rows
        self._rows.move_to_end(key)
        if len(self._rows) > self._max_rows:
            self._rows.popitem(last=False)


class KeyedLookup(AsyncFunction[Any, Any]):
    """Join each record with the rows of its key: `(record, row)`, or `(record, None)` if there are no rows.

    Keys that arrive during a query wait for the next query, which includes all of them, so a subtask needs one
    connection. A subclass implements `query`.
    """

    def __init__(
        self,
        key_selector: Callable[[Any], Hashable],
        *,
        max_rows: int | None,
        expire_after_write_ms: int | None,
        max_retries: int,
    ) -> None:
        """Set the cache and the function that returns the key of a record, or None to skip the lookup.

        Without `max_rows` and `expire_after_write_ms` there is no cache.
        """
        self._key_selector = checked_function("key_selector", key_selector)
        if (max_rows is None) != (expire_after_write_ms is None):
            raise ValueError(
                "a cache needs both cache_max_rows and cache_expire_after_write_ms, got "
                f"{max_rows!r} and {expire_after_write_ms!r}"
            )
        self._cache_settings = (0, 0.0)
        if max_rows is not None and expire_after_write_ms is not None:
            self._cache_settings = (
                checked_at_least("cache_max_rows", max_rows, 1),
                checked_at_least("cache_expire_after_write_ms", expire_after_write_ms, 1) / 1000,
            )
        self._max_retries = checked_at_least("max_retries", max_retries, 0)

    @abstractmethod
    async def query(self, keys: list[Hashable]) -> dict[Hashable, list[Any]]:
        """Return the rows of each of these keys. It is called again after a TransientError."""

    def open(self, runtime_context: Any) -> None:
        """Create the cache. The first call connects, in the event loop."""
        self._cache = LookupCache(*self._cache_settings)
        self._waiting: dict[Hashable, asyncio.Future[list[Any]]] = {}
        """Keys of the next query."""
        self._queried: dict[Hashable, asyncio.Future[list[Any]]] = {}
        """Keys of the running query."""
        self._task: asyncio.Task[None] | None = None

    async def async_invoke(self, value: Any) -> list[Any]:
        """Return the record with each row of its key."""
        key = self._key_selector(value)
        if key is None:
            return [(value, None)]
        loop = asyncio.get_running_loop()
        rows = self._cache.get(key, loop.time())
        if rows is None:
            future = self._queried.get(key) or self._waiting.get(key)
            if future is None:
                future = self._waiting[key] = loop.create_future()
                if self._task is None or self._task.done():
                    self._task = loop.create_task(self._query_all())
            # Shielded: if this call times out, others may still wait for the same key.
            rows = await asyncio.shield(future)
        return [(value, row) for row in rows] or [(value, None)]

    async def _query_all(self) -> None:
        while self._waiting:
            self._queried, self._waiting = self._waiting, {}
            try:
                found = await self._query_again(list(self._queried))
            except Exception as error:
                for future in self._queried.values():
                    future.set_exception(error)
                    # Mark the exception as retrieved: the waiting call may have timed out.
                    future.exception()
            else:
                now_s = asyncio.get_running_loop().time()
                for key, future in self._queried.items():
                    self._cache.put(key, found[key], now_s)
                    future.set_result(found[key])
            self._queried = {}

    async def _query_again(self, keys: list[Hashable]) -> dict[Hashable, list[Any]]:
        tries = 0
        while True:
            try:
                return await self.query(keys)
            except TransientError:
                if tries >= self._max_retries:
                    raise
                tries += 1
                await asyncio.sleep(tries)
