"""Rows of which some are absent, as partners in outer joins are: their columns are NULL there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pyarrow

from penstock.engine.state.arrays.row_keys import Integers

NONE = -1
"""In place of the number or the position of a row: there is no row."""


def taken(batch: pyarrow.RecordBatch, places: Integers) -> list[Any]:
    """Return the columns of rows by their positions, NULL where that is NONE."""
    absent = places == NONE
    if absent.all():
        return [pyarrow.nulls(len(places), kind) for kind in batch.schema.types]
    return list(batch.take(pyarrow.array(places, mask=absent if absent.any() else None)).columns)


def padded(rows: Callable[[Integers], pyarrow.RecordBatch], numbers: Integers) -> list[Any]:
    """Return the columns of rows by their numbers, NULL where that is NONE. `rows`: returns those of given numbers."""
    there = numbers != NONE
    found = rows(numbers[there])
    if there.all():
        return list(found.columns)
    return taken(found, numpy.where(there, numpy.cumsum(there) - 1, NONE))
