"""The output function of SplitMix64, by which any position of a random sequence is computed without those before it.

Source: Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014.
"""

from __future__ import annotations

import numpy
from numpy.typing import NDArray

Words = NDArray[numpy.uint64]
STEP = numpy.uint64(0x9E3779B97F4A7C15)
"""The distance of two positions of the sequence."""


def mixed(words: Words) -> Words:
    """Return the random words at these positions. It changes the array that it gets."""
    words ^= words >> numpy.uint64(30)
    words *= numpy.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> numpy.uint64(27)
    words *= numpy.uint64(0x94D049BB133111EB)
    words ^= words >> numpy.uint64(31)
    return words
