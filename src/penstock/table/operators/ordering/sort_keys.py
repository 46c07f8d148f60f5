"""ORDER BY over columns: numbers, or keys of Python, that are in the order of rows.

NULL has its place before or behind all values; NaN is greater than all other numbers, in ascending order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow
from pyarrow import compute

from penstock.common.columns.to_values import python_values
from penstock.engine.runtime.columns.sort_scores import score_type, scores_of
from penstock.table.operators.ordering.sorting import Descending, SortColumn

_NULL, _NAN = 2, 1
"""Places behind those of other values, which have 0; negative: before them."""


def ranks_of(columns: Sequence[pyarrow.Array], order_by: Sequence[SortColumn]) -> Any:
    """Return a number for each row: smaller ones come first, equal ones are of equal rows. Of these rows alone.

    `columns`: those of `order_by`, in its order.
    """
    parts: list[Any] = []
    for column, one in zip(columns, order_by, strict=True):
        scores, places = _scores(column, one)
        if places.any():
            parts.append(places)
        parts.append(scores)
    if len(parts) == 1:
        return parts[0]
    order = numpy.lexsort(parts[::-1])
    steps = numpy.zeros(len(order), numpy.bool_)
    for part in parts:
        ordered = part[order]
        steps[1:] |= ordered[1:] != ordered[:-1]
    ranks = numpy.empty(len(order), numpy.int64)
    ranks[order] = steps.cumsum()
    return ranks


def keys_of_rows(batch: pyarrow.RecordBatch, order_by: Sequence[SortColumn]) -> list[tuple[Any, ...]]:
    """Return a key for each row, which compares with keys of all other rows: smaller ones come first."""
    parts: list[list[Any]] = []
    for one in order_by:
        column = batch.column(one.place)
        if score_type(column.type) is not None:
            scores, places = _scores(column, one)
            parts += [places.tolist(), scores.tolist()]
            continue
        valid = column.is_valid().to_pylist()
        null = _NULL if one.nulls_last else -_NULL
        values = python_values(column)
        if not one.ascending:
            values = [Descending(value) for value in values]
        parts.append([0 if is_valid else null for is_valid in valid])
        # Of NULLs the place tells; they compare as equal.
        parts.append([value if is_valid else 0 for value, is_valid in zip(values, valid, strict=True)])
    return list(zip(*parts, strict=True)) if parts else [()] * batch.num_rows


def _scores(column: pyarrow.Array, one: SortColumn) -> tuple[Any, Any]:
    """Return a number for each value, and the place of NULLs and NaN, 0 for other values."""
    if score_type(column.type) is not None:
        scores, are_plain = scores_of(column, one.ascending)
    else:
        scores, are_plain = _of_distinct(column, one.ascending)
    places = numpy.zeros(len(column), numpy.int8)
    if not are_plain.all():
        scores = numpy.where(are_plain, scores, 0)
        nulls = column.is_null().to_numpy(zero_copy_only=False)
        places[~are_plain] = _NAN if one.ascending else -_NAN
        places[nulls] = _NULL if one.nulls_last else -_NULL
    return scores, places


def _of_distinct(column: pyarrow.Array, ascending: bool) -> tuple[Any, Any]:
    encoded = column.dictionary_encode()
    distinct = encoded.dictionary
    numbers = numpy.empty(len(distinct) + 1, numpy.int64)
    numbers[compute.sort_indices(distinct).to_numpy()] = numpy.arange(len(distinct))
    scores = numbers[encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)]
    return scores if ascending else -scores, column.is_valid().to_numpy(zero_copy_only=False)
