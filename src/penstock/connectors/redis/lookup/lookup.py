"""RedisLookup: an asynchronous function that joins records with hashes or values of Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from penstock.connectors.base.former_builder import HasFormerBuilder
from penstock.connectors.base.keyed_lookup import KeyedLookup
from penstock.connectors.base.options import checked_names
from penstock.connectors.redis.server import RedisConnection, RedisServer, checked_url
from penstock.connectors.redis.source.streams import as_key


class RedisLookup(KeyedLookup, HasFormerBuilder):
    """Join each record with the value at its key in Redis: `(record, found)`, or `(record, None)` without one.

    `found` is a dict of a hash's fields, or a value, both as text. Keys that arrive during a pipeline wait for the next
    pipeline, which includes all of them, so a subtask needs one connection.
    """

    def __init__(
        self,
        *,
        url: str,
        key_selector: Callable[[Any], Hashable],
        fields: Sequence[str] | None = None,
        values: bool = False,
        user_name: str | None = None,
        password: str | None = None,
        cache_max_rows: int | None = None,
        cache_expire_after_write_ms: int | None = None,
        max_retries: int = 3,
    ) -> None:
        """Raise TypeError or ValueError for a wrong argument.

        * `url`: the server, `redis://host:6379/0`, with TLS `rediss://…`; redis-py's settings after a `?`.
        * `key_selector`: the function that returns the key of a record in Redis, or None to skip the lookup.
        * `fields`: the fields of a hash that are returned. Default: all.
        * `values`: read values (GET) instead of hashes.
        * `user_name`, `password`: the user who connects. Default: from the url, else the user `default`.
        * `cache_max_rows`, `cache_expire_after_write_ms`: cache the results of this many keys for this time, also of
          keys without one. Default: no cache.
        * `max_retries`: how often a query is repeated while the server is unavailable before the job fails.
        """
        super().__init__(
            key_selector,
            max_rows=cache_max_rows,
            expire_after_write_ms=cache_expire_after_write_ms,
            max_retries=max_retries,
        )
        if values and fields is not None:
            raise ValueError(
                f"a RedisLookup reads either fields of hashes or values, got values=True and fields={fields!r}"
            )
        self._server = RedisServer(checked_url(url), user_name, password)
        self._is_of_values = values
        self._fields = () if fields is None else checked_names("fields", fields)

    def open(self, runtime_context: Any) -> None:
        """Prepare the cache and the connection, which the first query opens."""
        super().open(runtime_context)
        self._connection = RedisConnection(self._server)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    async def query(self, keys: list[Hashable]) -> dict[Hashable, list[Any]]:
        """Return the values at these keys. A thread waits for one pipeline."""
        commands = [self._command(as_key(str(key))) for key in keys]
        answers = await asyncio.to_thread(self._connection.pipelined, commands)
        for key, answer in zip(keys, answers, strict=True):
            if isinstance(answer, Exception):
                raise self._server.failed(answer, f"the key '{key}'")
        return {key: self._found(answer) for key, answer in zip(keys, answers, strict=True)}

    def _command(self, key: bytes) -> tuple[str | bytes, ...]:
        if self._is_of_values:
            return ("GET", key)
        return ("HMGET", key, *self._fields) if self._fields else ("HGETALL", key)

    def _found(self, answer: Any) -> list[Any]:
        if self._is_of_values:
            return [] if answer is None else [answer.decode()]
        if self._fields:
            # A hash without any of the fields looks like a missing hash.
            some = any(value is not None for value in answer)
            values = (None if value is None else value.decode() for value in answer)
            return [dict(zip(self._fields, values, strict=True))] if some else []
        return [{name.decode(): value.decode() for name, value in answer.items()}] if answer else []
