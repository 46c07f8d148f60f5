"""Where reading begins in a stream without state."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from penstock.connectors.redis.source.split import FIRST, id_before, order_of


class RedisStreamPosition(msgspec.Struct, frozen=True):
    """Where a source begins. Made by the static methods. Can be pickled."""

    ids: Mapping[str, str] = {}
    otherwise: str | None = FIRST
    """The id after which other streams are read; None: after their last entries."""

    @staticmethod
    def earliest() -> RedisStreamPosition:
        """Select the first entry of each stream."""
        return RedisStreamPosition()

    @staticmethod
    def latest() -> RedisStreamPosition:
        """Select the position after the last entry that each stream has when the job starts."""
        return RedisStreamPosition(otherwise=None)

    @staticmethod
    def timestamp(timestamp: int) -> RedisStreamPosition:
        """Select the first entry whose id has at least this time (ms since 1970)."""
        if timestamp < 0:
            raise ValueError(f"timestamp must be 0 or more (ms), got {timestamp!r}")
        return RedisStreamPosition(otherwise=id_before(timestamp))

    @staticmethod
    def after(ids: Mapping[str, str]) -> RedisStreamPosition:
        """Select the positions after the entries with these ids, by stream.

        Other streams are read from their first entries.
        """
        for stream, entry_id in ids.items():
            try:
                order_of(entry_id)
            except (AttributeError, ValueError):
                raise ValueError(
                    f"the id of an entry must be like 1700000000000-0, got {entry_id!r} for {stream}"
                ) from None
        return RedisStreamPosition(dict(ids))

    def in_stream(self, stream: str, last_id: str) -> str:
        """Return the id after which a stream whose last one is `last_id` is read."""
        return self.ids.get(stream) or (last_id if self.otherwise is None else self.otherwise)
