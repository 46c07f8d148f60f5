"""Sliced windows: how aligned windows cut time into slices, and what is shared between the windows of a slice."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.functions.result_kinds import awaited
from penstock.common.values.copies import ATOMS, own_copy
from penstock.engine.runtime.operators.operator import Values
from penstock.engine.state.tables import Layer

# Contents that several windows share: they must be as they were when one of the windows has been put together.
#
# A user's `merge` or `reduce` may change one of its two arguments and return it. What can't be changed needs no copy.

_CONTAINERS = frozenset({tuple, list, dict, set, frozenset})


def is_plain(value: Any) -> bool:
    """Whether `value` is one that `own_copy` copies at little cost: a number, text, or a builtin container."""
    return type(value) in ATOMS or type(value) in _CONTAINERS


def merged(parts: list[Any], merge: Callable[[Any, Any], Any]) -> Any:
    """Merge `parts`, two or more, from the first to the last, and leave them as they are."""
    kinds = set(map(type, parts))
    if kinds == {tuple}:
        kinds = set(map(type, itertools.chain.from_iterable(parts)))
    if kinds <= ATOMS:
        return awaited(functools.reduce(merge, parts))
    return awaited(functools.reduce(merge, map(own_copy, parts)))


Sorted = dict[int, tuple[list[Any], list[Any]]]
"""start of slice or window -> keys and values, in parallel"""


class Slicing:
    """Of windows of `size`, one each `slide`, from `offset` on (ms)."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        self._size, self._slide, self._offset = size, slide, offset
        self.width = math.gcd(size, slide)

    def slice_of(self, timestamp: int) -> int:
        """The start of the slice that contains a timestamp."""
        return timestamp - (timestamp - self._offset) % self.width

    def number_of(self, start: int) -> int:
        """The number of the slice that starts at `start`."""
        return (start - self._offset) // self.width

    def start_of(self, number: int) -> int:
        """The reverse."""
        return number * self.width + self._offset

    def windows_of(self, timestamp: int) -> range:
        """Starts of the windows that contain a timestamp, the latest first."""
        latest = timestamp - (timestamp - self._offset) % self._slide
        return range(latest, timestamp - self._size, -self._slide)

    def horizon(self, watermark: int) -> int:
        """The end of the last window that has ended: all windows of records from here on are still waiting."""
        now = watermark + 1
        return now - (now - self._offset - self._size) % self._slide

    def by_slice(
        self, keys: list[Any], values: Values, timestamps: list[int], horizon: int, behind: list[Any]
    ) -> Sorted:
        """Keys and values by slice; those before the horizon go to `behind`."""
        width, offset = self.width, self._offset
        found: Sorted = {}
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
        self, keys: list[Any], values: Values, timestamps: list[int], horizon: int, behind: list[Any]
    ) -> Sorted:
        """Keys and values by window that waits, with those before the horizon in `behind` too."""
        width, offset = self.width, self._offset
        first_waiting = horizon - self._size + self._slide
        found: Sorted = {}
        start = end = MIN_TIMESTAMP
        waiting: list[tuple[list[Any], list[Any]]] = []
        for key, timestamp, value in zip(keys, timestamps, values):  # noqa: B905
            if timestamp >= end or timestamp < start:
                start = timestamp - (timestamp - offset) % width
                end = start + width
                windows = self.windows_of(timestamp)
                waiting = [found.setdefault(window, ([], [])) for window in windows if window >= first_waiting]
            if timestamp < horizon:
                behind.append((key, value, timestamp))
            for some_keys, some_values in waiting:
                some_keys.append(key)
                some_values.append(value)
        return found


# Contents of slices merged two by two, so that a window of thousands of slices is put together of some twenty blocks.
#
#     slices      0   1   2   3   4   5   6   7
#     level 1     [0, 1]  [2, 3]  [4, 5]  [6, 7]
#     level 2     [0 ...... 3]    [4 ...... 7]          a window of slices 1 to 6: 1, [2, 3], [4, 5], 6
#
# Blocks lie at multiples of their length. So how a result is put together depends on its window alone, not on what was
# computed before: a job that is restored computes the same. Blocks are derived from the slices and in no snapshot. The
# first window that consists of a block makes it, when it fires, for all keys of its slices. These may be more than the
# window has: after a restart, a window that has fired fires again for what comes late. A record that comes later
# changes the blocks of its slice.

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


# Keys that wait for one window at a time: when it has fired, those with contents in the next window wait for that.
#
# A window of thousands of slices would else be noted for each key of each slice. Windows that had fired before a
# restart fire again for what comes late, and for nothing else: a key does not wait for the window after one of these.

_KEYS_UNTIMED = 256


class Succession:
    """Of the windows of one operator, by their starts. `unfired_from`: the first that had not fired at a restart."""

    def __init__(self, unfired_from: int = MIN_TIMESTAMP) -> None:
        self._unfired_from = unfired_from

    @staticmethod
    def restored(waiting: Collection[int], ended: Collection[int], slide: int) -> Succession:
        """That of a snapshot with these windows: keys with contents in one that had not fired waited for it."""
        if waiting:
            return Succession(min(waiting))
        return Succession(max(ended) + slide) if ended else Succession()

    def goes_on(self, window: int) -> bool:
        """Whether keys of this window, which fires, wait for the next one."""
        return window >= self._unfired_from

    def first_of(self, windows: Sequence[int]) -> Sequence[int]:
        """Of some windows, the latest first, those that a new key has to be noted for: it comes to the others later."""
        if not windows or windows[-1] >= self._unfired_from:
            return windows[-1:]
        unfired = [window for window in windows if window >= self._unfired_from]
        return [*unfired[-1:], *windows[len(unfired) :]]


def with_contents(
    keys: Iterable[Any], readers: Sequence[Callable[[Any], Any]], found: Layer, go_on: Callable[[], bool]
) -> Iterator[None]:
    """Add to `found` the keys for which a reader finds something, in steps."""
    rest = iter(keys)
    while missing := list(islice(rest, _KEYS_UNTIMED)):
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
        if not go_on():
            yield
