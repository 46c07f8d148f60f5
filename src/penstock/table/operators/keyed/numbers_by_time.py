"""Numbers of rows in the order of a time: those that are due are found without a look at the others.

A watermark comes every 200 ms, and a join may keep a million rows for hours: to look at all of them with each watermark
would cost more than the join. Numbers are in sorted blocks, of which each is about twice as large as the next one. So a
number is sorted a few times, and what is due is at the front of few blocks.
"""

from __future__ import annotations

import numpy

from penstock.engine.state.arrays.row_keys import Integers


class NumbersByTime:
    """Numbers, each with a time (ms)."""

    def __init__(self) -> None:
        self._blocks: list[tuple[Integers, Integers]] = []
        """Times in ascending order, and their numbers."""

    def __len__(self) -> int:
        return sum(len(times) for times, _ in self._blocks)

    @property
    def first(self) -> int | None:
        """The lowest time (ms); None without numbers."""
        return min((int(times[0]) for times, _ in self._blocks), default=None)

    def add(self, times: Integers, numbers: Integers) -> None:
        """Add numbers."""
        if not len(times):
            return
        while self._blocks and len(self._blocks[-1][0]) < 2 * len(times):
            earlier_times, earlier_numbers = self._blocks.pop()
            times, numbers = numpy.concatenate([earlier_times, times]), numpy.concatenate([earlier_numbers, numbers])
        order = times.argsort(kind="stable")
        self._blocks.append((times[order], numbers[order]))

    def take(self, until: int) -> Integers:
        """Remove and return the numbers whose time is up to `until` (ms), in ascending order."""
        if (first := self.first) is None or first > until:
            return numpy.zeros(0, numpy.int64)
        due: list[Integers] = []
        rest: list[tuple[Integers, Integers]] = []
        for times, numbers in self._blocks:
            end = int(numpy.searchsorted(times, until, side="right"))
            if end:
                due.append(numbers[:end])
            if end < len(times):
                rest.append((times[end:], numbers[end:]))
        self._blocks = rest
        return numpy.sort(numpy.concatenate(due))

    def numbers(self) -> Integers:
        """Return all numbers, in ascending order."""
        return numpy.sort(numpy.concatenate([numpy.zeros(0, numpy.int64), *(numbers for _, numbers in self._blocks)]))

    def renumber(self, numbers: Integers) -> None:
        """Replace each number by the one at its place in `numbers`."""
        self._blocks = [(times, numbers[former]) for times, former in self._blocks]
