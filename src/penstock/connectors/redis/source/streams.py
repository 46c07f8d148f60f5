"""The streams that a source reads, and queries of the server about them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from penstock.common.errors import SourceError
from penstock.connectors.base.retries import retried
from penstock.connectors.redis.server import RedisServer, redis
from penstock.connectors.redis.source.split import FIRST, RedisStreamSplit
from penstock.connectors.redis.source.starting_position import RedisStreamPosition

_SCANNED = 1000


class Streams(msgspec.Struct, frozen=True):
    """Streams by key, or those whose keys match a pattern of Redis (`orders:*`).

    `is_bounded`: each is read up to the last entry that it has when the job starts.
    """

    server: RedisServer
    keys: tuple[str, ...]
    pattern: str | None
    starting: RedisStreamPosition
    is_bounded: bool
    max_retries: int

    def __str__(self) -> str:
        return self.pattern or ", ".join(self.keys)

    def check(self) -> None:
        """Raise RedisError if the server cannot be reached, SourceError if a key has another type."""
        with self.server.session() as client:
            for key in self.keys:
                last_id(client, self.server, key)

    def new_splits(self, known: Collection[str], at_start: bool) -> list[RedisStreamSplit]:
        """Return splits of the streams that are not known yet. Waits for the server.

        A stream found after the start is read from its first entry.
        """
        return retried(lambda: self._new_splits(known, at_start), self.max_retries)

    def _new_splits(self, known: Collection[str], at_start: bool) -> list[RedisStreamSplit]:
        with self.server.session() as client:
            new = [key for key in self._keys_of(client) if key not in known]
            splits = []
            for index, key in enumerate(new, len(known)):
                last = last_id(client, self.server, key) or FIRST
                start = self.starting.in_stream(key, last) if at_start else FIRST
                # Treat the last entry as read: if it is missing later, entries after it may also be missing.
                is_present = start == last and bool(client.xrange(as_key(key), last, last, count=1))
                stop = last if self.is_bounded else None
                splits.append(RedisStreamSplit(index, key, start, is_read=is_present, stop=stop))
            return splits

    def _keys_of(self, client: Any) -> list[str]:
        if self.pattern is None:
            return list(self.keys)
        # Redis may return a key twice.
        found = set(client.scan_iter(match=self.pattern, count=_SCANNED, _type="stream"))
        return sorted(key.decode(errors="surrogateescape") for key in found)


def last_id(client: Any, server: RedisServer, key: str) -> str | None:
    """Return the last id given in a stream, also to a deleted entry, or None if the key does not exist."""
    package = redis()
    try:
        known: dict[str, Any] = client.xinfo_stream(as_key(key))
    except package.ResponseError as error:
        if str(error) == "no such key":
            return None
        failed = server.failed(error, f"the stream '{key}'")
        raise (SourceError(str(failed)) if str(error).startswith("WRONGTYPE") else failed) from None
    return bytes(known["last-generated-id"]).decode()


def as_key(key: str) -> bytes:
    """Return a key as the server has it. Keys that are not text are shown with surrogates."""
    return key.encode(errors="surrogateescape")
