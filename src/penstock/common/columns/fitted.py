"""Columns that functions return become those that are declared: with the same values, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

from penstock.common.columns.families import is_bytes, is_list, is_text

_FAMILIES: tuple[Callable[[pyarrow.DataType], bool], ...] = (
    arrow.is_boolean,
    lambda kind: arrow.is_integer(kind) or arrow.is_floating(kind),
    is_text,
    is_bytes,
    arrow.is_decimal,
    arrow.is_date,
    arrow.is_time,
    arrow.is_duration,
)
"""Types between which a column may be cast: Arrow's cast refuses most values that would change."""


def fitted(column: pyarrow.Array, field: pyarrow.Field) -> pyarrow.Array:
    """Return a column as one of this field. Raises TypeError, which names the column, if a value would change.

    Integers, floats, decimals, texts, bytes and times may become wider or narrower than they are; a float is rounded
    to the precision of a float, as in records. The midnight of a day may become a date.
    """
    wanted = field.type
    found = column.dictionary_decode() if arrow.is_dictionary(column.type) and column.type != wanted else column
    if found.type != wanted:
        if arrow.is_dictionary(wanted):
            values = fitted(found, field.with_type(wanted.value_type))
            return values.dictionary_encode().cast(wanted)
        if not _may_become(found.type, wanted):
            raise _misfit(field, column, "convert it in the function, or declare what it returns by output_type")
        try:
            cast = found.cast(wanted)
        except pyarrow.ArrowException as error:
            raise _misfit(field, column, str(error)) from error
        for before, after in zip(leaves(found), leaves(cast), strict=True):
            _check_unchanged(before, after, field, column)
        found = cast
    if not field.nullable and found.null_count:
        raise TypeError(f"column {field.name!r} ({wanted}): the schema does not allow null")
    return found


def _misfit(field: pyarrow.Field, column: pyarrow.Array, why: str) -> TypeError:
    return TypeError(f"column {field.name!r}: {column.type} can't become {field.type}: {why}")


def _may_become(given: pyarrow.DataType, wanted: pyarrow.DataType) -> bool:
    if given == wanted or arrow.is_null(given):
        return True
    if arrow.is_timestamp(given):
        if arrow.is_timestamp(wanted):
            return (given.tz is None) == (wanted.tz is None)
        return given.tz is None and arrow.is_date(wanted)
    if is_list(given) and is_list(wanted):
        return _may_become(given.value_type, wanted.value_type)
    if is_list(given) and arrow.is_map(wanted):
        # Polars has no maps.
        entry = given.value_type
        given = entry if arrow.is_struct(entry) else given
        parts = [wanted.key_type, wanted.item_type]
        return arrow.is_struct(entry) and _all_may_become([field.type for field in entry], parts)
    if arrow.is_map(given) and arrow.is_map(wanted):
        return _all_may_become([given.key_type, given.item_type], [wanted.key_type, wanted.item_type])
    if arrow.is_struct(given) and arrow.is_struct(wanted):
        same_names = [field.name for field in given] == [field.name for field in wanted]
        return same_names and _all_may_become([field.type for field in given], [field.type for field in wanted])
    return any(is_member(given) and is_member(wanted) for is_member in _FAMILIES)


def _all_may_become(given: list[pyarrow.DataType], wanted: list[pyarrow.DataType]) -> bool:
    return len(given) == len(wanted) and all(map(_may_become, given, wanted))


def leaves(column: pyarrow.Array) -> Iterator[pyarrow.Array]:
    """Yield the columns of plain values in a column."""
    kind = column.type
    if arrow.is_map(kind):
        parts = [column.keys, column.items]
    elif is_list(kind):
        parts = [column.flatten()]
    elif arrow.is_struct(kind):
        parts = column.flatten()
    else:
        yield column
        return
    for part in parts:
        yield from leaves(part)


def _check_unchanged(before: pyarrow.Array, after: pyarrow.Array, field: pyarrow.Field, column: pyarrow.Array) -> None:
    """Refuse what Arrow's cast changes silently: a float that becomes infinite, and a time of day."""
    if arrow.is_floating(before.type) and arrow.is_floating(after.type):
        if after.type.bit_width >= before.type.bit_width:
            return
        changed = compute.and_(compute.is_inf(after), compute.invert(compute.is_inf(before)))
    elif arrow.is_timestamp(before.type) and arrow.is_date(after.type):
        changed = compute.not_equal(after.cast(before.type), before)
    else:
        return
    values = before.filter(changed)
    if len(values):
        raise _misfit(field, column, f"{values[0]} would change")
