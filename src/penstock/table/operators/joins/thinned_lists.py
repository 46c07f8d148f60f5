"""Lists of the numbers of rows by slot, of which rows go: a list in which many have gone is written again."""

from __future__ import annotations

import numpy

from penstock.engine.runtime.columns.aggregate_arrays import grown
from penstock.engine.runtime.columns.slot_lists import Listed, SlotLists
from penstock.engine.state.arrays.row_keys import Integers, Mask

_FEW_GONE = 16
"""Up to so many numbers of rows that have gone stay in a list."""


class ThinnedLists:
    """The numbers of each slot, in the order of arrival, and some of rows that have gone."""

    def __init__(self) -> None:
        self._lists = SlotLists()
        self._gone: Integers = numpy.zeros(len(self._lists.counts), numpy.int64)
        """How many of the numbers in each list are those of rows that have gone."""

    @property
    def counts(self) -> Integers:
        """The length of each slot's list, with the rows that have gone."""
        return self._lists.counts

    def of(self, slots: Integers) -> Listed:
        """Return the lists of these slots, with the rows that have gone."""
        return self._lists.of(slots)

    def append(self, slots: Integers, first: int) -> None:
        """Append the numbers from `first` on, each to the list of its slot."""
        self._lists.append(slots, first)
        self.make_room(0)

    def make_room(self, slots: int) -> None:
        """Make room for the lists of so many slots."""
        self._lists.make_room(slots)
        if len(self._gone) < len(self._lists.counts):
            self._gone = grown(self._gone, len(self._lists.counts), 0)

    def note_gone(self, slots: Integers, stays: Mask) -> None:
        """Note that a row of each of these slots, which may be there several times, has gone. `stays`: by number."""
        distinct, counts = numpy.unique(slots, return_counts=True)
        self._gone[distinct] += counts
        # A key whose row is replaced again and again must not pay for all the former ones.
        gone = self._gone[distinct]
        crowded = distinct[(gone > _FEW_GONE) & (2 * gone > self._lists.counts[distinct])]
        if len(crowded):
            self._lists.keep(crowded, stays)
            self._gone[crowded] = 0
