"""Convert columns of texts to columns of declared types, with the values that `conversion.converter` makes of each.

Arrow casts texts of the usual form. It also accepts texts that Python refuses, such as 0x1f, so it only gets those
whose characters or form exclude them. The function of the type converts all others, which take their places in the
column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any

import msgspec
import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

from penstock.common.columns.families import is_text
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.to_values import may_be_beyond_python
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.common.types.basic_types import BasicTypeInfo
from penstock.common.types.integers import BITS
from penstock.connectors.formats.conversion import column_converter, converter

TextReader = Callable[[pyarrow.Array], pyarrow.Array]
"""From texts, null for None, to values. Raises any error for a text without a value, or one that the column refuses."""
_Cast = Callable[[pyarrow.Array], pyarrow.Array]
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}
_FIRST_DAY, _LAST_DAY = -719_161, 2_932_895
"""The days from 1970-01-01 to January 2 of year 1 and December 30 of year 9999: in each zone Python has such a day."""


class _Form(msgspec.Struct, frozen=True):
    """Texts that Arrow reads as Python does: those of these characters and lengths, and those of the pattern."""

    characters: bytes
    pattern: str
    lengths: tuple[int, int] | None = None
    """The least and the highest length, None: any."""


_MOMENT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?"
_BOOLEANS = _Form(b"aeflrstu01", "^(?i:true|false|0|1)$")
_INTEGERS = _Form(b"0123456789-", "^-?[0-9]+$")
_FLOATS = _Form(b"0123456789-.", r"^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$")
_DATES = _Form(b"0123456789-", "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", (10, 10))
_MOMENTS = _Form(b"0123456789-T :.", f"^{_MOMENT}$", (19, 26))
_INSTANTS = _Form(b"", f"^{_MOMENT}(Z|[-+][0-9]{{2}}:[0-9]{{2}})$")


def text_reader(
    kind: Any, columns: RecordColumns, convert_all: Callable[[Sequence[str]], Sequence[Any]] | None = None
) -> TextReader:
    """Return the reader of a column. `kind`: of the values, as in `converter`; `columns`: the one column to make.

    `convert_all`: converts texts to values of a nested kind, which `converter` does not know.
    """
    [field] = columns.schema
    usual = None if convert_all is not None else _usual_cast(kind, field.type)
    convert_all = convert_all or column_converter(kind)

    def read_each(texts: pyarrow.Array) -> pyarrow.Array:
        values = convert_all(texts.drop_null().to_pylist())
        if texts.null_count:
            present = iter(values)
            values = [next(present) if is_valid else None for is_valid in texts.is_valid().to_pylist()]
        return columns.exact_batch([values]).column(0)

    def read(texts: pyarrow.Array) -> pyarrow.Array:
        found = read_each(texts) if usual is None else _read_usual(texts, *usual, read_each)
        if not field.nullable and found.null_count:
            raise TypeError(f"column {field.name!r} ({field.type}): the schema does not allow None")
        return found

    return read


def _read_usual(texts: pyarrow.Array, form: _Form | None, cast: _Cast, read_each: TextReader) -> pyarrow.Array:
    if form is None:
        return cast(texts)
    try:
        if _have_characters(texts, form):
            return cast(texts)
        is_usual = compute.match_substring_regex(texts, form.pattern)
        others = texts.filter(compute.invert(is_usual))
        if 2 * len(others) < len(texts):
            # A null in the mask stands for a null in the texts.
            found = cast(compute.if_else(is_usual, texts, None))
            return compute.replace_with_mask(found, compute.invert(is_usual).fill_null(False), read_each(others))
    except pyarrow.ArrowException:
        # A day that does not exist, or an integer beyond the type: the function of the type knows.
        pass
    return read_each(texts)


def _have_characters(texts: pyarrow.Array, form: _Form) -> bool:
    """Return whether all texts have the characters and lengths of a form, by one pass over their bytes."""
    if not form.characters:
        return False
    if form.lengths is not None:
        extremes = compute.min_max(compute.binary_length(texts)).values()
        if not all(form.lengths[0] <= (one.as_py() or form.lengths[0]) <= form.lengths[1] for one in extremes):
            return False
    first, last = _offset(texts, 0), _offset(texts, len(texts))
    return not bytes(texts.buffers()[2][first:last] if last > first else b"").translate(None, form.characters)


def _offset(texts: pyarrow.Array, index: int) -> int:
    at = 4 * (texts.offset + index)
    return int.from_bytes(texts.buffers()[1][at : at + 4].to_pybytes(), "little")


def _usual_cast(kind: Any, wanted: pyarrow.DataType) -> tuple[_Form | None, _Cast] | None:
    """Return the cast from texts of a kind to a type of columns, and the form of its texts; None: there is no cast."""
    convert = converter(kind)
    if convert is str and is_text(wanted):
        return None, lambda texts: texts.cast(wanted)
    if convert is converter(bool) and arrow.is_boolean(wanted):
        return _BOOLEANS, lambda texts: texts.cast(wanted)
    is_bounded = isinstance(kind, BasicTypeInfo) and kind._basic_type in BITS
    if (is_bounded or convert is converter(int)) and arrow.is_integer(wanted):
        # Values beyond the bounds of the declared type are an error, also where the column would have them.
        bounds = pyarrow.int64() if not is_bounded else _BOUNDS[BITS[kind._basic_type]]
        return _INTEGERS, lambda texts: texts.cast(bounds).cast(wanted)
    if convert is converter(float) and (arrow.is_float64(wanted) or arrow.is_float32(wanted)):
        return _FLOATS, lambda texts: _float(texts, wanted)
    if arrow.is_date32(wanted) and convert is converter(date):
        return _DATES, _day
    if arrow.is_timestamp(wanted) and wanted.unit in _PER_DAY and convert is converter(datetime):
        form = _MOMENTS if wanted.tz is None else _INSTANTS
        return form, lambda texts: _moment(texts, wanted)
    return None


def text_check(kind: Any) -> Callable[[pyarrow.Array], Any]:
    """Return a function that raises an error for a text without a value of this kind."""
    convert_all, usual = column_converter(kind), _USUAL.get(converter(kind))
    read = None if usual is None else text_reader(kind, RecordColumns(pyarrow.schema({"": usual})))

    def check(texts: pyarrow.Array) -> None:
        try:
            if read is not None:
                read(texts)
                return
        except NOT_OF_A_VALUE:
            raise
        except RAISED:
            # Not a value of the column, but maybe one of its kind, such as a large integer.
            pass
        convert_all(texts.drop_null().to_pylist())

    return check


_USUAL = {
    converter(int): pyarrow.int64(),
    converter(float): pyarrow.float64(),
    converter(bool): pyarrow.bool_(),
    converter(date): pyarrow.date32(),
    converter(datetime): pyarrow.timestamp("us"),
}


def usual_moments(texts: pyarrow.Array, wanted: pyarrow.DataType) -> pyarrow.Array:
    """Return the timestamps of texts, `2024-01-02T03:04:05` with up to six digits more and a zone if `wanted` has one.

    Raise pyarrow.ArrowInvalid for any other text. ISO 8601 and RFC 3339 give these texts the same meaning.
    """
    form = _MOMENTS if wanted.tz is None else _INSTANTS
    if not (_have_characters(texts, form) or compute.all(compute.match_substring_regex(texts, form.pattern)).as_py()):
        raise pyarrow.ArrowInvalid("not all texts have the usual form")
    return _moment(texts, wanted)


def _float(texts: pyarrow.Array, wanted: pyarrow.DataType) -> pyarrow.Array:
    # Rounded to a double before it becomes a single, as Python's floats are.
    found = texts.cast(pyarrow.float64()).cast(wanted)
    if compute.any(compute.is_inf(found)).as_py():
        raise pyarrow.ArrowInvalid("a float is infinite")
    return found


def _day(texts: pyarrow.Array) -> pyarrow.Array:
    found = texts.cast(pyarrow.date32())
    if may_be_beyond_python(found):
        raise pyarrow.ArrowInvalid("there is no year 0")
    return found


def _moment(texts: pyarrow.Array, wanted: pyarrow.DataType) -> pyarrow.Array:
    found = texts.cast(wanted)
    per_day = _PER_DAY[wanted.unit]
    for extreme in compute.min_max(found.cast(pyarrow.int64())).values():
        if extreme.is_valid and not _FIRST_DAY * per_day <= extreme.as_py() < _LAST_DAY * per_day:
            raise pyarrow.ArrowInvalid("a time may be outside the years of Python")
    return found


_BOUNDS = {8: pyarrow.int8(), 16: pyarrow.int16(), 32: pyarrow.int32(), 64: pyarrow.int64()}
