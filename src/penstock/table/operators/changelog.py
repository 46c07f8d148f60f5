"""Changelogs as columns: the kind of each row, and whether it adds a row or retracts one.

Source: Flink's RowDataUtil, where INSERT and UPDATE_AFTER accumulate, UPDATE_BEFORE and DELETE retract.
"""

from __future__ import annotations

import numpy
import pyarrow

from penstock.common.types import RowKind
from penstock.engine.runtime.columns.chunk import Columns, Kinds
from penstock.engine.state.arrays.row_keys import Integers, Mask

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = (
    kind.value for kind in (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE)
)
ADDED = (INSERT, UPDATE_AFTER)
"""The kinds of rows that are added."""


def kinds_of(chunk: Columns) -> Kinds:
    """Return the kind of each row."""
    return numpy.full(len(chunk), INSERT, numpy.uint8) if chunk.kinds is None else chunk.kinds


def are_added(chunk: Columns) -> Mask:
    """Return which rows are added. The others are retracted."""
    if chunk.kinds is None:
        return numpy.ones(len(chunk), numpy.bool_)
    added: Mask = (chunk.kinds == INSERT) | (chunk.kinds == UPDATE_AFTER)
    return added


def signs_of(chunk: Columns) -> Integers:
    """Return 1 for rows that are added, -1 for those that are retracted."""
    if chunk.kinds is None:
        return numpy.ones(len(chunk), numpy.int64)
    return numpy.where(are_added(chunk), 1, -1)


def changes_of(batch: pyarrow.RecordBatch, kinds: Kinds) -> Columns:
    """Return rows of these kinds as a chunk."""
    return Columns(batch, None, kinds if kinds.any() else None)
