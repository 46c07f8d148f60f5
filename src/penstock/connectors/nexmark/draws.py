"""Random numbers that any event can compute for itself, so that a range of events needs none of those before it.

Word k of an event is the output of SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators",
2014) at position `event id * 16 + k` of the sequence that the seed selects. A word makes two draws of 32 bits. A draw
answers several questions in turn, each with the fraction that the one before left, as digits of a mixed radix: the
bounds of all questions to one draw multiply to much less than 2^32.
"""

from __future__ import annotations

import numpy
from numpy.typing import NDArray

from penstock.connectors.base.split_mix import STEP, Words, mixed

Ints = NDArray[numpy.int64]
_WORDS_PER_EVENT = 16
_HALF = numpy.uint64(32)
_LOW = numpy.uint64(0xFFFFFFFF)


class Draw:
    """A random number per event: a fraction of 1 in 32 bits."""

    def __init__(self, fraction: Words) -> None:
        self._fraction = fraction

    def below(self, bound: int | Ints) -> Ints:
        """Return numbers from 0 to below a bound, which is at most 2^31, or one bound per event."""
        limit = numpy.uint64(bound) if isinstance(bound, int) else bound.view(numpy.uint64)
        product = self._fraction * limit
        self._fraction = product & _LOW
        product >>= _HALF
        return product.view(numpy.int64)

    def unit(self) -> NDArray[numpy.float64]:
        """Return numbers from 0 to below 1."""
        return self._fraction.astype(numpy.float64) * 2.0**-32


class Draws:
    """The draws of events. A column names the draws that it needs, so it does not depend on the other columns."""

    def __init__(self, seed: int, ids: Ints) -> None:
        self._first = ids.view(numpy.uint64) * numpy.uint64(_WORDS_PER_EVENT)
        self._start = mixed(numpy.array([seed], numpy.uint64) + STEP)
        self._words: dict[int, Words] = {}

    def __getitem__(self, index: int) -> Draw:
        """Return a draw, from 0 to 31: two callers that ask the same of it get the same answer."""
        word = self._word(index >> 1)
        return Draw(word & _LOW if index & 1 else word >> _HALF)

    def _word(self, index: int) -> Words:
        if index not in self._words:
            self._words[index] = mixed((self._first + numpy.uint64(index)) * STEP + self._start)
        return self._words[index]
