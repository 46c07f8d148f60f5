"""Spans of buckets: neighbors with few records are together, so that a chunk reaches few spans."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from penstock.engine.state.arrays.row_keys import Integers

_ROWS = 128
"""A span begins with so many records of a chunk, or those of a single bucket. It costs 0.1 ms for a chunk, whatever it
has, and a record is compared with all records of its key there."""
_GAP_MAX = 4
"""Buckets that are farther apart are not in one span, which is freed with its last bucket."""


def spans_of(buckets: Integers, known: Sequence[tuple[int, int]]) -> tuple[dict[int, int], Integers]:
    """Return the spans of the buckets of rows, first bucket -> end, and for each row the first bucket of its span.

    `known`: the beginnings and ends of the spans that there are. Others get new ones.
    """
    found, of_rows, counts = numpy.unique(buckets, return_inverse=True, return_counts=True)
    known = sorted(known)
    places = numpy.searchsorted(numpy.array([first for first, _ in known], numpy.int64), found, side="right") - 1
    spans: dict[int, int] = {}
    firsts: list[int] = []
    last_place, rows, last = -2, 0, 0
    for bucket, count, place in zip(found.tolist(), counts.tolist(), places.tolist(), strict=True):
        if place >= 0 and bucket < known[place][1]:
            firsts.append(known[place][0])
            spans[firsts[-1]] = known[place][1]
            last_place = -2
            continue
        if place != last_place or rows + count > _ROWS or bucket - last > _GAP_MAX:
            firsts.append(bucket)
            last_place, rows = place, 0
        else:
            firsts.append(firsts[-1])
        spans[firsts[-1]] = bucket + 1
        rows, last = rows + count, bucket
    return spans, numpy.array(firsts, numpy.int64)[of_rows]
