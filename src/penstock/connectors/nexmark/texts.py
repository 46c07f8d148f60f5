"""Random texts as slices of long ones, which are made once per seed: a slice costs a copy, not a draw per character."""

from __future__ import annotations

import functools

import numpy
import pyarrow
from pyarrow import compute

from penstock.connectors.nexmark.draws import Draw, Draws, Ints
from penstock.connectors.nexmark.slices import SPARE_BYTES, Bytes, slices

_POOL_BYTES = 1 << 20
"""Length of a text of which slices are made."""
_LENGTH_MIN = 3
_CHANNELS = 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_SPACE, _UNDERSCORE, _A = b" _a"
# Seeds of their own, so that the texts do not repeat the draws of events.
_WORDS_SALT, _EXTRA_SALT, _URLS_SALT = (0x576F726473, 0x4578747261, 0x55726C73)


class Texts:
    """The texts of one seed.

    `words`: letters, and a space for one of 13. `extra`: characters without spaces. `channels`, `urls`: those of the
    hot channels, then those of the others.
    """

    def __init__(self, seed: int) -> None:
        self._words = _words(seed)
        blanks = self._words == _SPACE
        places = numpy.arange(len(blanks), dtype=numpy.int64)
        self._next_letter = numpy.minimum.accumulate(numpy.where(blanks, len(blanks), places)[::-1])[::-1]
        """Position of the first letter at or behind each one."""
        self._letters_end = numpy.maximum.accumulate(numpy.where(blanks, 0, places + 1))
        """Position behind the last letter at or before each one."""
        self._extra = _extra(seed)
        self.channels = pyarrow.array([*HOT_CHANNELS, *(f"channel-{number}" for number in range(_CHANNELS))])
        self.urls = _urls(seed, numpy.where(blanks, numpy.uint8(_UNDERSCORE), self._words))

    def phrases(self, draw: Draw, length_end: int) -> pyarrow.StringArray:
        """Return texts of 3 to below `length_end` characters, without the spaces at both ends."""
        starts, sizes = _phrase(draw, length_end)
        first, end = self._next_letter[starts], self._letters_end[starts + sizes - 1]
        return slices(self._words, first, numpy.maximum(end - first, 0))

    def extra(self, draw: Draw, present: int | Ints, average: int) -> pyarrow.StringArray:
        """Return texts by which events that have `present` bytes reach an average size, give or take 20 %."""
        missing = numpy.asarray(average - present, numpy.int64)
        spread = numpy.floor(missing * 0.2 + 0.5).astype(numpy.int64)
        sizes = numpy.maximum(missing - spread + draw.below(numpy.maximum(2 * spread, 0)), 0)
        return slices(self._extra, draw.below(_POOL_BYTES - sizes), sizes)


@functools.lru_cache(maxsize=4)
def texts_of(seed: int) -> Texts:
    """Return the texts of a seed. They take some 30 ms and 20 MB."""
    return Texts(seed)


def _phrase(draw: Draw, length_end: int) -> tuple[Ints, Ints]:
    sizes = draw.below(length_end - _LENGTH_MIN) + _LENGTH_MIN
    return draw.below(_POOL_BYTES - length_end), sizes


def _words(seed: int) -> Bytes:
    draws = Draws(seed ^ _WORDS_SALT, numpy.arange(_POOL_BYTES + SPARE_BYTES, dtype=numpy.int64))
    letters = draws[0].below(26) + _A
    return numpy.where(draws[1].below(13) == 0, _SPACE, letters).astype(numpy.uint8)


def _extra(seed: int) -> Bytes:
    """Return characters in groups of six: from a to z, or, in every second group, from a down to H.

    The published generator makes six characters of a signed number by its remainders, which have its sign.
    """
    draws = Draws(seed ^ _EXTRA_SALT, numpy.arange(_POOL_BYTES + SPARE_BYTES, dtype=numpy.int64))
    signs = numpy.repeat(1 - 2 * draws[0].below(2)[::6], 6)[: _POOL_BYTES + SPARE_BYTES]
    return (_A + signs * draws[1].below(26)).astype(numpy.uint8)


def _urls(seed: int, words: Bytes) -> pyarrow.StringArray:
    count = len(HOT_CHANNELS) + _CHANNELS
    draws = Draws(seed ^ _URLS_SALT, numpy.arange(count, dtype=numpy.int64))
    parts = [slices(words, *_phrase(draws[index], 5)) for index in range(3)]
    pages = compute.binary_join_element_wise("https://www.nexmark.com", *parts, "item.htm?query=1", "/")
    named = draws[3].below(10) > 0
    named[: len(HOT_CHANNELS)] = False
    ids = [""] * len(HOT_CHANNELS) + [f"&channel_id={_channel_id(number)}" for number in range(_CHANNELS)]
    return compute.binary_join_element_wise(pages, compute.if_else(pyarrow.array(named), pyarrow.array(ids), ""), "")


def _channel_id(number: int) -> int:
    """Return the absolute value of a number's 32 bits in reverse; that of -2^31 is itself, as in Java."""
    reverse = int(f"{number:032b}"[::-1], 2)
    return -reverse if reverse == 2**31 else min(reverse, 2**32 - reverse)
