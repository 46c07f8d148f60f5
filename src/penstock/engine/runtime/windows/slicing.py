"""Sliced windows: how aligned windows divide time into slices, and how windows share slices."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.functions.result_kinds import awaited
from penstock.common.values.copies import ATOMS, independent_copy
from penstock.engine.runtime.chunks import Values
from penstock.engine.state.tables import Layer

_CONTAINERS = frozenset({tuple, list, dict, set, frozenset})


def is_plain(value: Any) -> bool:
    """Return whether `independent_copy` copies `value` at little cost: a number, text, or a builtin container."""
    return type(value) in ATOMS or type(value) in _CONTAINERS


def merged(parts: list[Any], merge: Callable[[Any, Any], Any]) -> Any:
    """Merge `parts`, two or more, from the first to the last, without changing them: windows share them.

    A user's `merge` or `reduce` may change one of its arguments and return it, so it gets copies of mutable parts.
    """
    kinds = set(map(type, parts))
    if kinds == {tuple}:
        kinds = set(map(type, itertools.chain.from_iterable(parts)))
    if kinds <= ATOMS:
        return awaited(functools.reduce(merge, parts))
    return awaited(functools.reduce(merge, map(independent_copy, parts)))


RecordsByStart = dict[int, tuple[list[Any], list[Any]]]
"""start of slice or window -> keys and values, as parallel lists"""


class Slicing:
    """Divides time into slices for windows of `size`, which start each `slide`, shifted by `offset` (ms).

    A window is named by its end less `size`, which is its start, except for cumulative windows: these start each
    `period`, of which `size` is one, and end each `slide`.
    """

    def __init__(self, size: int, slide: int, offset: int, period: int | None = None) -> None:
        self._size, self._slide, self._offset = size, slide, offset
        self._period = slide if period is None else period
        self.width = math.gcd(size, slide)

    def slice_of(self, timestamp: int) -> int:
        """Return the start of the slice that contains a timestamp."""
        return timestamp - (timestamp - self._offset) % self.width

    def number_of(self, start: Any) -> Any:
        """Return the number of the slice that starts at `start`, or contains it. For an array, an array."""
        return (start - self._offset) // self.width

    def start_of(self, number: int) -> int:
        """Return the start of the slice with this number."""
        return number * self.width + self._offset

    def windows_of(self, timestamp: int) -> range:
        """Return the windows that contain a timestamp, the latest first."""
        latest = timestamp - (timestamp - self._offset) % self._period
        return range(latest, timestamp - self._size, -self._slide)

    def window_start(self, window: int) -> int:
        """Return the start of a window."""
        if self._period == self._slide:
            return window
        last = window + self._size - 1
        return last - (last - self._offset) % self._period

    def horizon(self, watermark: int) -> int:
        """Return the end of the last window that has ended. All windows of later records are still waiting.

        At the end of time all have ended, those that reach beyond it, too.
        """
        if watermark >= MAX_TIMESTAMP:
            return MAX_TIMESTAMP + self._size
        now = watermark + 1
        return now - (now - self._offset - self._size) % self._slide

    def by_slice(
        self, keys: list[Any], values: Values, timestamps: list[int], *, horizon: int, behind: list[Any]
    ) -> RecordsByStart:
        """Return keys and values by slice. Records before the horizon go to `behind`."""
        width, offset = self.width, self._offset
        found: RecordsByStart = {}
        start = end = MIN_TIMESTAMP
        add_key = add_value = behind.append
        for key, timestamp, value in zip(keys, timestamps, values):  # noqa: B905
            if timestamp >= end or timestamp < start:
                if timestamp < horizon:
                    behind.append((key, value, timestamp))
                    continue
                start = timestamp - (timestamp - offset) % width
                end = start + width
                lists = found.get(start)
                if lists is None:
                    lists = found[start] = ([], [])
                add_key, add_value = lists[0].append, lists[1].append
            add_key(key)
            add_value(value)
        return found

    def by_window(
        self,
        keys: list[Any],
        values: Values,
        timestamps: list[int],
        *,
        horizon: int,
        behind: list[Any],
        only_first: bool = False,
    ) -> RecordsByStart:
        """Return keys and values by waiting window, or `only_first`: only for the first such window of each record.

        Records before the horizon are also added to `behind`.
        """
        width, offset = self.width, self._offset
        first_waiting = horizon - self._size + self._slide
        found: RecordsByStart = {}
        start = end = MIN_TIMESTAMP
        waiting: list[tuple[list[Any], list[Any]]] = []
        for key, timestamp, value in zip(keys, timestamps, values):  # noqa: B905
            if timestamp >= end or timestamp < start:
                start = timestamp - (timestamp - offset) % width
                end = start + width
                windows = self.windows_of(timestamp)
                into = [window for window in windows if window >= first_waiting]
                waiting = [found.setdefault(window, ([], [])) for window in (into[-1:] if only_first else into)]
            if timestamp < horizon:
                behind.append((key, value, timestamp))
            for some_keys, some_values in waiting:
                some_keys.append(key)
                some_values.append(value)
        return found


Read = Callable[[Any], Any]
"""Returns the contents of a key, or None."""
_KEYS_PER_YIELD = 256


class Blocks:
    """Contents of slices merged in pairs, so that a window of thousands of slices consists of about twenty blocks.

        slices      0   1   2   3   4   5   6   7
        level 1     [0, 1]  [2, 3]  [4, 5]  [6, 7]
        level 2     [0 ...... 3]    [4 ...... 7]          a window of slices 1 to 6: 1, [2, 3], [4, 5], 6

    Blocks lie at multiples of their length. So the parts of a window depend only on the window, not on earlier
    computations, and a restored job computes the same results. Blocks are derived from slices, and not part of
    snapshots. When the first window with a block fires, it builds the block for all keys of its slices. These may be
    more keys than the window has: after a restart, a window that has fired fires again for late records. A later record
    changes the blocks of its slice. `read` returns the reader of a slice by its number, `keys` its keys; `merge` merges
    contents.
    """

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
        """Blocks by level, from 1 on: number of the block -> {key: contents}."""
        self._end = 0
        """The end of the last block: no block contains this slice or later ones."""

    def readers(self, first: int, end: int) -> list[Read]:
        """Return the readers of these slices: existing blocks, or else the slices themselves."""
        found: list[Read] = []
        for level, number in parts_of(first, end):
            found += self._readers(level, number)
        return found

    def _readers(self, level: int, number: int) -> list[Read]:
        if level == 0:
            reader = self._read(number)
            return [] if reader is None else [reader]
        block = self._block(level, number)
        if block is not None:
            return [block.get] if block else []
        return [*self._readers(level - 1, 2 * number), *self._readers(level - 1, 2 * number + 1)]

    def build(self, first: int, end: int) -> Iterator[None]:
        """Build the blocks of a window that fires, in steps."""
        for level, number in parts_of(first, end):
            if level:
                yield from self._build(level, number)

    def _build(self, level: int, number: int) -> Iterator[None]:
        if self._block(level, number) is not None:
            return
        children = 2 * number, 2 * number + 1
        if level > 1:
            for child in children:
                yield from self._build(level - 1, child)
        left, right = (self._reader(level - 1, child) for child in children)
        keys = [self._keys(level - 1, child) for child in children]
        block: dict[Any, Any] = {}
        for count, key in enumerate(chain.from_iterable(keys), start=1):
            if key not in block and (contents := self._merged(left, right, key)) is not None:
                block[key] = contents
            if count % _KEYS_PER_YIELD == 0:
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
        assert len(readers) < 2, "the parts of a block are built before it"
        return readers[0] if readers else None

    def _merged(self, left: Read | None, right: Read | None, key: Any) -> Any:
        one = left(key) if left is not None else None
        other = right(key) if right is not None else None
        if one is None or other is None:
            return other if one is None else one
        return self._merge([one, other], key)

    def _block(self, level: int, number: int) -> dict[Any, Any] | None:
        return self._levels[level].get(number) if level < len(self._levels) else None

    def changed(self, slice_number: int, keys: Collection[Any]) -> None:
        """Update the blocks of a slice to which records of these keys were added."""
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
        """Drop the blocks of a slice that was removed."""
        for level in range(1, len(self._levels)):
            self._levels[level].pop(slice_number >> level, None)

    def clear(self) -> None:
        """Drop all blocks."""
        self._levels, self._end = [{}], 0


@functools.lru_cache(maxsize=8)
def parts_of(first: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return the largest blocks that cover these slices, in order: (level, number) each. Level 0: a slice.

    Cached, because a window that fires calls this when it builds its blocks and when it reads them.
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


_KEYS_PER_CLOCK_READING = 256


class Succession:
    """Decides for which window a key waits, so that it waits for one window at a time.

    When a window has fired, its keys with contents in the next window wait for that one. Otherwise each key of each
    slice would be registered for all windows of the slice, which may be thousands. Windows that had fired before a
    restart fire again only for late records: a key does not wait for the window after such a window. Windows are named
    by their starts. `unfired_from`: the first window that had not fired at a restart.
    """

    def __init__(self, unfired_from: int = MIN_TIMESTAMP) -> None:
        self._unfired_from = unfired_from

    @staticmethod
    def restored(waiting: Collection[int], ended: Collection[int], slide: int) -> Succession:
        """Create the succession after a restore of these windows. Keys waited for each window that had not fired."""
        if waiting:
            return Succession(min(waiting))
        return Succession(max(ended) + slide) if ended else Succession()

    def continues_after(self, window: int) -> bool:
        """Return whether keys of this window, which fires, wait for the next one."""
        return window >= self._unfired_from

    def first_of(self, windows: Sequence[int]) -> Sequence[int]:
        """Return the windows that a new key waits for now, of `windows`, which start with the latest one."""
        if not windows or windows[-1] >= self._unfired_from:
            return windows[-1:]
        unfired = [window for window in windows if window >= self._unfired_from]
        return [*unfired[-1:], *windows[len(unfired) :]]


def with_contents(
    keys: Iterable[Any], readers: Sequence[Callable[[Any], Any]], found: Layer, may_continue: Callable[[], bool]
) -> Iterator[None]:
    """Add to `found` the keys with contents in any reader, in steps."""
    rest = iter(keys)
    while missing := list(islice(rest, _KEYS_PER_CLOCK_READING)):
        for reader in readers:
            left = []
            for key in missing:
                if reader(key) is None:
                    left.append(key)
                else:
                    found[key] = True
            if not left:
                break
            missing = left
        if not may_continue():
            yield
