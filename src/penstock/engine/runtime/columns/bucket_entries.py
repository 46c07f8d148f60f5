"""The entries of a span of buckets: pairs of a key and a bucket, in the order in which they first occur."""

from __future__ import annotations

import numpy

from penstock.engine.state.arrays.key_slots import KeySlots
from penstock.engine.state.arrays.row_keys import IntegerKeys, Integers


class BucketEntries:
    """`first`: the first bucket of the span; `width`: how many it has. `keys`: the slots of its keys.

    An entry has a number, from 0 on. Of one bucket, entries are slots.
    """

    def __init__(self, keys: KeySlots, first: int, width: int) -> None:
        self.keys = keys
        self.first = first
        self.width = width
        self._codes = None if width == 1 else KeySlots()
        """The number of each entry, by the slot of its key and its bucket."""

    def __len__(self) -> int:
        return len(self.keys) if self._codes is None else len(self._codes)

    def codes(self, slots: Integers, buckets: Integers) -> Integers:
        """Return an integer for each pair of a slot and a bucket: in the order of slots, then of buckets."""
        codes: Integers = slots * self.width + (buckets - self.first)
        return codes

    def add(self, slots: Integers, buckets: Integers) -> None:
        """Add the entries of rows. Slots of keys exist already."""
        if self._codes is not None:
            self._codes.slots_of(IntegerKeys(self.codes(slots, buckets)))

    def slots_of(self, entries: Integers) -> Integers:
        """Return the slots of the keys of entries."""
        if self._codes is None:
            return entries
        slots: Integers = self._codes.integers[entries] // self.width
        return slots

    def buckets_of(self, entries: Integers) -> Integers:
        """Return the buckets of entries."""
        if self._codes is None:
            return numpy.full(len(entries), self.first, numpy.int64)
        buckets: Integers = self._codes.integers[entries] % self.width + self.first
        return buckets
