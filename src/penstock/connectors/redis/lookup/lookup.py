"""RedisLookup: an asynchronous function that joins records with hashes or values of Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from penstock.connectors.base.keyed_lookup import KeyedLookup
from penstock.connectors.base.options import checked_names
from penstock.connectors.redis.server import RedisConnection, RedisServer, checked_url
from penstock.connectors.redis.source.streams import as_key


class RedisLookup(KeyedLookup):
    """Joins each record with what Redis has at its key: `(record, found)`, or `(record, None)` without anything.

    What is found: a dict of a hash's fields, as text; or a value, as text. Keys that are asked for while the server
    answers go by the next pipeline, all together, so a subtask has one connection.
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

        * `url`: the server, `redis://host:6379/0`, by TLS `rediss://…`; redis-py's settings after a `?`.
        * `key_selector`: the function that returns the key of a record in Redis; for None nothing is looked up.
        * `fields`: the fields of a hash that are looked up. Default: all.
        * `values`: look values up (GET), in the place of hashes.
        * `user_name`, `password`: the user who connects. Default: as the url has them, else the user `default`.
        * `cache_max_rows`, `cache_expire_after_write_ms`: keep what was found for so many keys for so long, also that
          there is nothing. Default: no cache.
        * `max_retries`: how often a server that is away is asked again before the job fails.
        """
        super().__init__(
            key_selector,
            max_rows=cache_max_rows,
            expire_after_write_ms=cache_expire_after_write_ms,
            max_retries=max_retries,
        )
        if values and fields is not None:
            raise ValueError(f"a RedisLookup takes either fields of hashes or values, got values and {fields!r}")
        self._server = RedisServer(checked_url(url), user_name, password)
        self._is_of_values = values
        self._fields = () if fields is None else checked_names("fields", fields)

    def open(self, runtime_context: Any) -> None:
        """Begin without a connection: the first query makes it."""
        super().open(runtime_context)
        self._connection = RedisConnection(self._server)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    async def query(self, keys: list[Hashable]) -> dict[Hashable, list[Any]]:
        """Return the values at these keys, by one pipeline, for which a thread waits."""
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
            # A hash without any of them looks like none.
            some = any(value is not None for value in answer)
            values = (None if value is None else value.decode() for value in answer)
            return [dict(zip(self._fields, values, strict=True))] if some else []
        return [{name.decode(): value.decode() for name, value in answer.items()}] if answer else []
