"""The lookup of hashes and values in Redis, against a server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.connectors.redis_keys import Keys

from penstock.connectors.redis.server import RedisError
from penstock.datastream.connectors.redis import RedisLookup
from penstock.testing.redis_server import RedisServer

pytestmark = pytest.mark.connectors


@pytest.fixture
def keys(redis_server: RedisServer) -> Iterator[Keys]:
    keys = Keys(redis_server.url)
    yield keys
    keys.client.close()


def lookup_in(keys: Keys, **settings: Any) -> RedisLookup:
    prefix = keys.prefix

    def key_of(record: Any) -> str | None:
        return None if record is None else f"{prefix}:{record}"

    return RedisLookup(**{"url": keys.url, "key_selector": key_of, **settings})


def results(lookup: RedisLookup, *records: Any) -> list[Any]:
    """Return the results of all, looked up at the same time."""

    async def ask() -> list[list[Any]]:
        return await asyncio.gather(*[lookup.async_invoke(record) for record in records])

    return [result for of_record in asyncio.run(ask()) for result in of_record]


def test_each_record_has_what_is_at_its_key(keys: Keys) -> None:
    """Records would be joined with what belongs to others, or be lost without anything."""
    for number in range(1, 100):
        keys.client.hset(keys.name(str(number)), mapping={"name": number, "other": "ü"})
    keys.client.set(keys.name("text"), "ä")
    lookups = [lookup_in(keys), lookup_in(keys, fields=["name", "no"])]
    values = lookup_in(keys, values=True)
    for lookup in (*lookups, values):
        lookup.open(None)

    assert results(lookups[0], *range(100), 3, None) == [
        (0, None),
        *((number, {"name": str(number), "other": "ü"}) for number in [*range(1, 100), 3]),
        (None, None),
    ]
    assert results(lookups[1], 0, 1) == [(0, None), (1, {"name": "1", "no": None})]
    assert results(values, "text", "none") == [("text", "ä"), ("none", None)]
    with pytest.raises(RedisError, match=r"the key 't\w+:1': WRONGTYPE"):
        results(values, 1)
    for lookup in (*lookups, values):
        lookup.close()


def test_what_is_in_the_cache_is_not_asked_for(keys: Keys) -> None:
    """The server would be queried for each record, or records would get outdated values."""
    keys.client.set(keys.name("a"), "1")
    cached, fresh = (
        lookup_in(keys, values=True, cache_max_rows=10, cache_expire_after_write_ms=60_000),
        lookup_in(keys, values=True),
    )
    for lookup in (cached, fresh):
        lookup.open(None)
        results(lookup, "a", "b")
    keys.client.mset({keys.name("a"): "2", keys.name("b"): "3"})

    assert results(cached, "a", "b") == [("a", "1"), ("b", None)]
    assert results(fresh, "a", "b") == [("a", "2"), ("b", "3")]
    for lookup in (cached, fresh):
        lookup.close()


def test_a_server_that_is_started_again_is_asked_again() -> None:
    """A restart of the server would restart the job."""
    with RedisServer() as server:
        keys = Keys(server.url)
        keys.client.set(keys.name("a"), "1")
        lookup = lookup_in(keys, values=True)
        lookup.open(None)
        assert results(lookup, "a") == [("a", "1")]
        server.kill()
        server.start()

        assert results(lookup, "a") == [("a", "1")]
        lookup.close()
        keys.client.close()
