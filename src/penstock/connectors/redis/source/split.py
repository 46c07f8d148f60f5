"""A stream, and a position in it."""

from __future__ import annotations

import msgspec

from penstock.common.stored import stored_as

FIRST = "0-0"
"""An id before those of all entries."""
_SEQUENCE_MAX = 2**64 - 1


def order_of(entry_id: str) -> tuple[int, int]:
    """Return milliseconds and sequence number of an entry's id, by which entries are ordered."""
    at_ms, _, sequence = entry_id.partition("-")
    return int(at_ms), int(sequence or 0)


def id_before(at_ms: int) -> str:
    """Return an id after those of all entries before a time (ms since 1970)."""
    return f"{at_ms - 1}-{_SEQUENCE_MAX}" if at_ms > 0 else FIRST


def id_after(entry_id: str) -> str:
    """Return the least id after this one."""
    at_ms, sequence = order_of(entry_id)
    return f"{at_ms + 1}-0" if sequence == _SEQUENCE_MAX else f"{at_ms}-{sequence + 1}"


@stored_as("redis-stream-split")
class RedisStreamSplit(msgspec.Struct, frozen=True):
    """A stream, to read after the entry with the id `position`, up to the one with the id `stop` (None: no end).

    `is_read`: the entry at `position` was read, so while it exists, no later entry was trimmed. `index`: the number of
    the stream in its source.
    """

    index: int
    stream: str
    position: str = FIRST
    is_read: bool = False
    stop: str | None = None

    @property
    def split_id(self) -> str:
        """Return the key of the stream."""
        return self.stream

    @property
    def is_finished(self) -> bool:
        """Return whether no entries are left to read."""
        return self.stop is not None and order_of(self.position) >= order_of(self.stop)

    def after_entry(self, entry_id: str, *, is_read: bool = True) -> RedisStreamSplit:
        """Return the position after an entry."""
        return RedisStreamSplit(
            index=self.index, stream=self.stream, position=entry_id, is_read=is_read, stop=self.stop
        )
