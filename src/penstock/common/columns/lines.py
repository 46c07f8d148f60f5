"""Batches as lines of text. Arrow makes the texts of whole columns, and Python those that Arrow writes otherwise."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy
import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

from penstock.common.columns.families import is_text
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.to_values import are_usual_moments, python_values
from penstock.common.columns.typed_values import reader_of

TEXT = pyarrow.large_string()
"""The type of texts: a column of a batch may have more than 2 GiB of them."""
_SINGLE_KINDS = (
    arrow.is_boolean,
    arrow.is_integer,
    arrow.is_float32,
    arrow.is_float64,
    arrow.is_string,
    arrow.is_large_string,
    arrow.is_binary,
    arrow.is_date,
    arrow.is_time,
    arrow.is_timestamp,
    arrow.is_decimal,
)
_LEAST_FLOAT, _FLOAT_BOUND = 1e-4, 1e10
"""The bounds of the floats that Arrow writes without an exponent, as Python and msgspec do."""


class Lines(NamedTuple):
    """The lines of a batch. `ends`: the offset behind each line."""

    data: bytes
    ends: Sequence[int]


def have_values_of_records(columns: RecordColumns) -> bool:
    """Return whether a record has the values of its columns, none of them nested or of another form."""
    kinds = columns.schema.types
    if not all(any(is_kind(kind) for is_kind in _SINGLE_KINDS) for kind in kinds):
        return False
    declared = None if columns.row_type is None else columns.row_type.get_field_types()
    return declared is None or all(
        reader_of(kind, one) is python_values for kind, one in zip(kinds, declared, strict=True)
    )


def joined(*parts: pyarrow.Array | str) -> pyarrow.Array:
    """Return the parts of each text joined; a str is a part of all of them. The result has no other content."""
    parts = tuple(pyarrow.scalar(part, TEXT) if isinstance(part, str) else part for part in parts)
    return compute.binary_join_element_wise(*parts, pyarrow.scalar("", TEXT))


def lines_of(*parts: pyarrow.Array | str) -> Lines:
    """Return lines of such parts, at least one of which is of a column without nulls."""
    lines = joined(*parts)
    return Lines(content_of(lines), _offsets(lines)[1:])


def texts_of(column: pyarrow.Array, text_of_float: Callable[[float], str]) -> pyarrow.Array | None:
    """Return the texts of numbers, booleans, dates and times (ISO 8601), and texts themselves; None for other columns.

    `text_of_float`: for NaN, infinities, and floats with an exponent. Raises pyarrow.ArrowInvalid for a text that is
    not UTF-8.
    """
    kind = column.type
    if is_text(kind):
        column.validate(full=True)
    if is_text(kind) or arrow.is_integer(kind) or arrow.is_boolean(kind):
        return column.cast(TEXT)
    if arrow.is_floating(kind):
        return _texts_of_floats(column.cast(pyarrow.float64()), text_of_float)
    if not are_usual_moments(column):
        return None
    return column.cast(TEXT) if arrow.is_date(kind) else _texts_of_times(column)


def _texts_of_floats(column: pyarrow.Array, text_of_float: Callable[[float], str]) -> pyarrow.Array:
    values = column.fill_null(0.0).to_numpy()
    # NaNs that signal would cause a warning.
    with numpy.errstate(invalid="ignore"):
        sizes = numpy.abs(values)
        is_unlike = ~((sizes >= _LEAST_FLOAT) & (sizes < _FLOAT_BOUND) | (sizes == 0))
        is_whole = values == numpy.trunc(values)
    texts = column.cast(TEXT)
    if is_whole.any():
        texts = joined(texts, compute.if_else(pyarrow.array(is_whole), *_ends_of_floats()))
    return replaced(texts, pyarrow.array(is_unlike), lambda: map(text_of_float, values[is_unlike].tolist()))


def _texts_of_times(column: pyarrow.Array) -> pyarrow.Array:
    """Return the texts of times that `are_usual_moments`. Python omits a fraction of zero."""
    texts = compute.replace_substring(column.cast(pyarrow.timestamp("us")).cast(TEXT), " ", "T", max_replacements=1)
    is_whole = compute.ends_with(texts, ".000000")
    if not compute.any(is_whole).as_py():
        return texts
    return compute.if_else(is_whole, compute.utf8_slice_codeunits(texts, 0, -len(".000000")), texts)


def replaced(texts: pyarrow.Array, where: pyarrow.Array, others: Callable[[], Any]) -> pyarrow.Array:
    """Return texts with those `where` it is true replaced by others: an Array, or an iterable of str."""
    if not compute.any(where).as_py():
        return texts
    found = others()
    replacements = found if isinstance(found, pyarrow.Array) else pyarrow.array(list(found), TEXT)
    return compute.replace_with_mask(texts, where, replacements)


def content_of(texts: pyarrow.Array) -> bytes:
    """Return all texts, one behind the other. Nulls may have a content, too."""
    data = texts.buffers()[2]
    offsets = _offsets(texts)
    return b"" if data is None else data[int(offsets[0]) : int(offsets[-1])].to_pybytes()


def _offsets(texts: pyarrow.Array) -> Any:
    if not len(texts):
        return numpy.zeros(1, numpy.int64)
    return numpy.frombuffer(texts.buffers()[1], numpy.int64)[texts.offset : texts.offset + len(texts) + 1]


@functools.cache
def _ends_of_floats() -> tuple[pyarrow.Scalar, pyarrow.Scalar]:
    """Return what follows whole numbers, and others: Arrow writes 1, Python 1.0."""
    # When they are first needed: pyarrow imports pandas for its first value, which takes 0.3 s.
    return pyarrow.scalar(".0", TEXT), pyarrow.scalar("", TEXT)
