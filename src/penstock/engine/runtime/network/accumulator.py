"""Records that wait to be sent."""

from __future__ import annotations

from typing import Any

from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, Segment


class Accumulator:
    """What waits to be sent to one channel (pipelined mode), or of one key group to one target (batched mode).

    The lists live as long as the accumulator does: the routes of a partitioner hold their bound `append`.
    """

    __slots__ = (
        "append_pair",
        "append_value",
        "closed_records",
        "key_group",
        "segments",
        "sequence",
        "target",
        "timestamps",
        "values",
    )

    def __init__(self, target: int, key_group: int = NO_KEY_GROUP) -> None:
        self.target = target
        self.key_group = key_group
        self.sequence = 0
        self.values: list[Any] = []
        self.timestamps: list[int] = []
        self.segments: list[Segment] = []
        self.closed_records = 0
        """How many records `segments` hold."""
        self.append_value = self.values.append
        self.append_pair = (self.values.append, self.timestamps.append)

    def extend(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Append a whole chunk."""
        self.values.extend(values)
        if timestamps is not None:
            self.timestamps.extend(timestamps)

    def close_segment(self) -> None:
        """End the current segment, because an element follows it, or records of the other kind."""
        if self.values:
            # Copied and cleared, not replaced: routes hold the `append` of these lists.
            self.segments.append((self.values[:], self.timestamps[:] if self.timestamps else None))
            self.closed_records += len(self.values)
            self.values.clear()
            self.timestamps.clear()
