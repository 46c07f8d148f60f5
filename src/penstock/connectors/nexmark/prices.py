"""Prices in cents: their logarithm is uniform from 1 to 1,000,000 dollars (nexmark/nexmark, PriceGenerator)."""

from __future__ import annotations

import math

import numpy

from penstock.connectors.nexmark.draws import Draw, Ints

_POWER = 6 * math.log(10.0)


def prices(draw: Draw) -> Ints:
    """Return a price per event, rounded half up."""
    return numpy.floor(numpy.exp(draw.unit() * _POWER) * 100.0 + 0.5).astype(numpy.int64)
