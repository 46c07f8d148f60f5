"""Splits that are ranges of integers, used by the counting sources: collection, number sequence, generator."""

from __future__ import annotations

import msgspec

from penstock.common.stored import stored_as


@stored_as("range-split")
class RangeSplit(msgspec.Struct, frozen=True, gc=False):
    """The numbers `position`, `position + step`, … below `end`; without an upper bound if `end` is None.

    `index` identifies the split within its source and stays constant while `position` advances.
    """

    index: int
    position: int
    end: int | None
    step: int = 1

    @property
    def split_id(self) -> str:
        """Return `range-<index>`."""
        return f"range-{self.index}"

    def is_empty(self) -> bool:
        """Return whether no numbers are left."""
        return self.end is not None and self.position >= self.end

    def take(self, count: int) -> tuple[range, RangeSplit | None]:
        """Return up to `count` next numbers and the remaining split, or None if the split is exhausted."""
        stop = self.position + count * self.step
        if self.end is not None and stop >= self.end:
            return range(self.position, self.end, self.step), None
        return range(self.position, stop, self.step), RangeSplit(self.index, stop, self.end, self.step)


def contiguous(start: int, end: int, count: int) -> list[RangeSplit]:
    """Divide `start` … `end - 1` into `count` ranges of nearly equal length, in order; omit empty ranges."""
    length = max(0, end - start)
    cuts = [start + length * i // count for i in range(count + 1)]
    return [RangeSplit(i, cuts[i], cuts[i + 1]) for i in range(count) if cuts[i] < cuts[i + 1]]


def strided(end: int | None, count: int) -> list[RangeSplit]:
    """Divide the numbers from 0 to below `end` round-robin: all splits advance together, so `end` may be None."""
    splits = [RangeSplit(i, i, end, count) for i in range(count)]
    return [split for split in splits if not split.is_empty()]
