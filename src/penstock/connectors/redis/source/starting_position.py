"""Where reading begins in a stream for which a job has no state."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from penstock.connectors.redis.source.split import FIRST, id_before, order_of


class RedisStreamPosition(msgspec.Struct, frozen=True):
    """Where a source begins. Made by the static methods; what they return is a setting, and may be pickled."""

    ids: Mapping[str, str] = {}
    otherwise: str | None = FIRST
    """Behind which id the other streams are read; None: behind their last ones."""

    @staticmethod
    def earliest() -> RedisStreamPosition:
        """The first entry of each stream."""
        return RedisStreamPosition()

    @staticmethod
    def latest() -> RedisStreamPosition:
        """Behind the last entry that each stream has when the job starts."""
        return RedisStreamPosition(otherwise=None)

    @staticmethod
    def timestamp(timestamp: int) -> RedisStreamPosition:
        """The first entry whose id has this time or a later one (ms since 1970)."""
        if timestamp < 0:
            raise ValueError(f"timestamp must be 0 or more (ms), got {timestamp!r}")
        return RedisStreamPosition(otherwise=id_before(timestamp))

    @staticmethod
    def after(ids: Mapping[str, str]) -> RedisStreamPosition:
        """Behind the entries with these ids, by stream; other streams are read from their first entries on."""
        for stream, entry_id in ids.items():
            try:
                order_of(entry_id)
            except (AttributeError, ValueError):
                raise ValueError(f"the id of an entry is like 1700000000000-0, got {entry_id!r} for {stream}") from None
        return RedisStreamPosition(dict(ids))

    def in_stream(self, stream: str, last_id: str) -> str:
        """Behind which id a stream is read whose last one is `last_id`."""
        return self.ids.get(stream) or (last_id if self.otherwise is None else self.otherwise)
