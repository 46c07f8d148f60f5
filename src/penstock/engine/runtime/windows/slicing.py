"""How aligned windows cut time: into slices of the greatest common divisor of size and slide."""

from __future__ import annotations

import math
from typing import Any

from penstock.common.constants import MIN_TIMESTAMP
from penstock.engine.runtime.operators.operator import Values

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
