"""Contents of slices merged two by two, so that a window of thousands of slices is put together of some twenty blocks.

    slices      0   1   2   3   4   5   6   7
    level 1     [0, 1]  [2, 3]  [4, 5]  [6, 7]
    level 2     [0 ...... 3]    [4 ...... 7]          a window of slices 1 to 6: 1, [2, 3], [4, 5], 6

Blocks lie at multiples of their length. So how a result is put together depends on its window alone, not on what was
computed before: a job that is restored computes the same. Blocks are derived from the slices and in no snapshot. The
first window that consists of a block makes it, when it fires, for all keys of its slices. These may be more than the
window has: after a restart, a window that has fired fires again for what comes late. A record that comes later changes
the blocks of its slice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Any

Read = Callable[[Any], Any]
"""From key to contents, or None."""
_PIECE_KEYS = 256


class Blocks:
    """Of one operator. `read` gives the reader of a slice by its number, `keys` its keys; `merge` merges contents."""

    def __init__(
        self,
        read: Callable[[int], Read | None],
        keys: Callable[[int], Collection[Any]],
        merge: Callable[[list[Any], Any], Any],
    ) -> None:
        self._read = read
        self._slice_keys = keys
        self._merge = merge
        self._levels: list[dict[int, dict[Any, Any]]] = [{}]
        """By level, from 1 on: number of a block -> {key: contents}."""
        self._end = 0
        """No block has slices from here on."""

    def readers(self, first: int, end: int) -> list[Read]:
        """What reads these slices: blocks as far as they are made, else the slices themselves."""
        found: list[Read] = []
        for level, number in parts_of(first, end):
            found += self._readers(level, number)
        return found

    def _readers(self, level: int, number: int) -> list[Read]:
        if level == 0:
            reader = self._read(number)
            return [] if reader is None else [reader]
        made = self._made(level, number)
        if made is not None:
            return [made.get] if made else []
        return [*self._readers(level - 1, 2 * number), *self._readers(level - 1, 2 * number + 1)]

    def make(self, first: int, end: int) -> Iterator[None]:
        """Make the blocks of a window that fires, in steps."""
        for level, number in parts_of(first, end):
            if level:
                yield from self._make(level, number)

    def _make(self, level: int, number: int) -> Iterator[None]:
        if self._made(level, number) is not None:
            return
        children = 2 * number, 2 * number + 1
        if level > 1:
            for child in children:
                yield from self._make(level - 1, child)
        left, right = (self._reader(level - 1, child) for child in children)
        keys = [self._keys(level - 1, child) for child in children]
        block: dict[Any, Any] = {}
        for count, key in enumerate(chain.from_iterable(keys), start=1):
            if key not in block and (contents := self._merged(left, right, key)) is not None:
                block[key] = contents
            if count % _PIECE_KEYS == 0:
                yield
        while len(self._levels) <= level:
            self._levels.append({})
        self._levels[level][number] = block
        self._end = max(self._end, (number + 1) << level)
        yield

    def _keys(self, level: int, number: int) -> Collection[Any]:
        return self._slice_keys(number) if level == 0 else self._levels[level][number]

    def _reader(self, level: int, number: int) -> Read | None:
        readers = self._readers(level, number)
        assert len(readers) < 2, "the parts of a block are made before it"
        return readers[0] if readers else None

    def _merged(self, left: Read | None, right: Read | None, key: Any) -> Any:
        one = left(key) if left is not None else None
        other = right(key) if right is not None else None
        if one is None or other is None:
            return other if one is None else one
        return self._merge([one, other], key)

    def _made(self, level: int, number: int) -> dict[Any, Any] | None:
        return self._levels[level].get(number) if level < len(self._levels) else None

    def changed(self, slice_number: int, keys: Collection[Any]) -> None:
        """Records of these keys were added to a slice."""
        if slice_number >= self._end:
            return
        for level in range(1, len(self._levels)):
            block = self._levels[level].get(number := slice_number >> level)
            if block is None:
                continue
            for key in keys:
                parts = [
                    contents
                    for child in (2 * number, 2 * number + 1)
                    for read in self._readers(level - 1, child)
                    if (contents := read(key)) is not None
                ]
                if parts:
                    block[key] = parts[0] if len(parts) == 1 else self._merge(parts, key)

    def drop(self, slice_number: int) -> None:
        """A slice is gone: no window consists of its blocks any more."""
        for level in range(1, len(self._levels)):
            self._levels[level].pop(slice_number >> level, None)

    def clear(self) -> None:
        """Forget all blocks."""
        self._levels, self._end = [{}], 0


@functools.lru_cache(maxsize=8)
def parts_of(first: int, end: int) -> tuple[tuple[int, int], ...]:
    """The largest blocks that these slices consist of, in order: level and number each. Level 0: a slice.

    Cached, since a window that fires asks when it makes its blocks and when it reads them.
    """
    left: list[tuple[int, int]] = []
    right: list[tuple[int, int]] = []
    level = 0
    while first < end:
        if first & 1:
            left.append((level, first))
            first += 1
        if end & 1:
            end -= 1
            right.append((level, end))
        first, end, level = first >> 1, end >> 1, level + 1
    return (*left, *reversed(right))
