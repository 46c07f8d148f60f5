"""RedisLookup: an asynchronous function that joins records with hashes or values of Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Any

from penstock.connectors.base.keyed_lookup import KeyedLookup
from penstock.connectors.base.options import checked_at_least
from penstock.connectors.redis.connection import RedisConnection
from penstock.connectors.redis.server import RedisServer, checked_url
from penstock.connectors.redis.source.streams import as_key


class RedisLookup(KeyedLookup):
    """Joins each record with what Redis has at its key: `(record, found)`, or `(record, None)` without anything.

    What is found: a dict of a hash's fields, as text; or a value, as text. Keys that are asked for while the server
    answers go by the next pipeline, all together, so a subtask has one connection. Made by `RedisLookup.builder()`.
    """

    def __init__(
        self,
        server: RedisServer,
        fields: tuple[str, ...] | None,
        key_selector: Callable[[Any], Hashable],
        cache: tuple[int, float],
        max_retries: int,
    ) -> None:
        """`fields`: those of a hash, () for all of them; None: values."""
        super().__init__(key_selector, cache, max_retries)
        self._server = server
        self._fields = fields

    @staticmethod
    def builder() -> RedisLookupBuilder:
        """Start to build one."""
        return RedisLookupBuilder()

    def open(self, runtime_context: Any) -> None:
        """Begin without a connection: the first query makes it."""
        super().open(runtime_context)
        self._connection = RedisConnection(self._server)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    async def query(self, keys: list[Hashable]) -> dict[Hashable, list[Any]]:
        """What is at these keys, by one pipeline, for which a thread waits."""
        commands = [self._command(as_key(str(key))) for key in keys]
        answers = await asyncio.to_thread(self._connection.pipelined, commands)
        for key, answer in zip(keys, answers, strict=True):
            if isinstance(answer, Exception):
                raise self._server.failed(answer, f"the key '{key}'")
        return {key: self._found(answer) for key, answer in zip(keys, answers, strict=True)}

    def _command(self, key: bytes) -> tuple[str | bytes, ...]:
        if self._fields is None:
            return ("GET", key)
        return ("HMGET", key, *self._fields) if self._fields else ("HGETALL", key)

    def _found(self, answer: Any) -> list[Any]:
        if self._fields is None:
            return [] if answer is None else [answer.decode()]
        if self._fields:
            # A hash without any of them looks like none.
            some = any(value is not None for value in answer)
            values = (None if value is None else value.decode() for value in answer)
            return [dict(zip(self._fields, values, strict=True))] if some else []
        return [{name.decode(): value.decode() for name, value in answer.items()}] if answer else []


class RedisLookupBuilder:
    """Settings of a RedisLookup. Each method returns the builder."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._user_name: str | None = None
        self._password: str | None = None
        self._key_selector: Callable[[Any], Hashable] | None = None
        self._fields: tuple[str, ...] | None = ()
        self._cache = (0, 0.0)
        self._max_retries = 3

    def set_url(self, url: str) -> RedisLookupBuilder:
        """Set the server: `redis://host:6379/0`, by TLS `rediss://…`; redis-py's settings after a `?`."""
        self._url = checked_url(url)
        return self

    def set_user_name(self, user_name: str) -> RedisLookupBuilder:
        """Set who connects. Default: who is in the url, else the user `default`."""
        self._user_name = user_name
        return self

    def set_password(self, password: str) -> RedisLookupBuilder:
        """Set the password. Default: that of the url, else none."""
        self._password = password
        return self

    def set_key_selector(self, key_selector: Callable[[Any], Hashable]) -> RedisLookupBuilder:
        """Set the function that gives the key of a record in Redis; for None nothing is looked up."""
        self._key_selector = key_selector
        return self

    def set_fields(self, *fields: str) -> RedisLookupBuilder:
        """Set which fields of the hash are looked up. Default: all."""
        self._fields = fields
        return self

    def set_values(self) -> RedisLookupBuilder:
        """Look values up (GET), in the place of hashes."""
        self._fields = None
        return self

    def set_cache(self, max_rows: int, expire_after_write_ms: int) -> RedisLookupBuilder:
        """Keep what was found for so many keys for so long; also that there is nothing. Default: no cache."""
        max_rows = checked_at_least("max_rows", max_rows, 1)
        self._cache = max_rows, checked_at_least("expire_after_write_ms", expire_after_write_ms, 1) / 1000
        return self

    def set_max_retries(self, max_retries: int) -> RedisLookupBuilder:
        """Set how often a server that is away is asked again before the job fails. Default: 3."""
        self._max_retries = checked_at_least("max_retries", max_retries, 0)
        return self

    def build(self) -> RedisLookup:
        """Create the function. Raises ValueError if something necessary is missing."""
        if self._url is None:
            raise ValueError("a RedisLookup needs a server: set_url('redis://host:6379/0')")
        if self._key_selector is None:
            raise ValueError("a RedisLookup needs set_key_selector")
        server = RedisServer(self._url, self._user_name, self._password)
        return RedisLookup(server, self._fields, self._key_selector, self._cache, self._max_retries)
