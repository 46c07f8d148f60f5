"""Deal events to subtasks by epochs, so that all advance together and have each kind in its proportion."""

from __future__ import annotations

import msgspec
import numpy

from penstock.common.stored import stored_as
from penstock.connectors.nexmark.numbering import Ints


@stored_as("nexmark-split")
class NexmarkSplit(msgspec.Struct, frozen=True, gc=False):
    """Every `splits`-th block of `block` consecutive events, from block `index` on.

    `position`: how many of its events were read. `end`: how many it has, None if the input has no end.
    """

    index: int
    splits: int
    block: int
    position: int
    end: int | None

    @property
    def split_id(self) -> str:
        """Return `nexmark-<index>`."""
        return f"nexmark-{self.index}"

    def take(self, count: int) -> tuple[Ints, NexmarkSplit | None]:
        """Return the positions in the whole input of up to `count` next events, and the rest; None: nothing is left."""
        stop = self.position + count if self.end is None else min(self.position + count, self.end)
        mine = numpy.arange(self.position, stop, dtype=numpy.int64)
        blocks = mine // self.block
        return mine + (blocks * (self.splits - 1) + self.index) * self.block, self.behind(count)

    def behind(self, count: int) -> NexmarkSplit | None:
        """Return the split without its next `count` events; None: nothing is left."""
        position = self.position + count
        if self.end is not None and position >= self.end:
            return None
        return msgspec.structs.replace(self, position=position)


def dealt(count: int | None, block: int, splits: int) -> list[NexmarkSplit]:
    """Divide the first `count` events, or, if that is None, all; omit empty splits."""
    if count is None:
        return [NexmarkSplit(index=index, splits=splits, block=block, position=0, end=None) for index in range(splits)]
    blocks, rest = divmod(count, block)
    ends = [
        (blocks // splits + (index < blocks % splits)) * block + (rest if index == blocks % splits else 0)
        for index in range(splits)
    ]
    return [
        NexmarkSplit(index=index, splits=splits, block=block, position=0, end=end)
        for index, end in enumerate(ends)
        if end
    ]
