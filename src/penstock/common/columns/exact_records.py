"""Records of a stream become columns: refuse what would be missing when the columns become records again.

Files and tables are more lenient: a dict may lack fields, and a time with a zone is written in UTC.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pyarrow
from pyarrow import types as arrow

from penstock.common.time import Instant
from penstock.common.typeinfo import RowTypeInfo
from penstock.common.types import Row, RowKind
from penstock.common.types.record_fields import fields_of, missing_field

TimeCheck = Callable[[Any], None]
"""Raises ValueError for a value that contains a time which the column would change."""
_MOMENTS = {datetime.datetime, type(None)}


def exact_fields(records: Sequence[Any], names: tuple[str, ...], record_type: Any) -> list[Sequence[Any]]:
    """Return the values of each column. A record has all fields; its other fields are left out.

    Raises TypeError or ValueError for a record that lacks a field, for a Row that is not an INSERT where `record_type`
    has no kinds, and for an object of a subclass of `record_type`.
    """
    kinds = set(map(type, records))
    if kinds == {dict}:
        try:
            return [[record[name] for record in records] for name in names]
        except KeyError:
            _check_names(records, names)
            raise
    for kind in kinds:
        if isinstance(record_type, type) and kind is not record_type and issubclass(kind, record_type):
            raise TypeError(
                f"a {kind.__name__} would become a {record_type.__name__}: pass {kind.__name__} to as_columns"
            )
        if issubclass(kind, Row) and not isinstance(record_type, RowTypeInfo):
            _check_kinds(record for record in records if type(record) is kind)
        elif issubclass(kind, dict):
            _check_names((record for record in records if type(record) is kind), names)
    return list(zip(*(fields_of(record, names) for record in records), strict=True))


def _check_kinds(records: Iterable[Row]) -> None:
    for record in records:
        if record._row_kind is not RowKind.INSERT:
            raise ValueError(
                f"the Row has the kind {record._row_kind.name}, which only columns of Types.ROW_NAMED(...) keep: "
                "declare that type, or add the kind as a field"
            )


def check_nested_kinds(values: Sequence[Any]) -> None:
    """Raise ValueError for a Row within a value that is not an INSERT: only whole records have kinds as columns."""
    for value in values:
        if isinstance(value, Row):
            if value._row_kind is not RowKind.INSERT:
                raise ValueError(
                    f"a Row inside the record has the kind {value._row_kind.name}, but columns keep only the kind of "
                    "the record itself: add it as a field"
                )
            check_nested_kinds(value._values)
        elif isinstance(value, (list, tuple)):
            check_nested_kinds(value)
        elif isinstance(value, dict):
            check_nested_kinds(list(value.values()))


def _check_names(records: Iterable[dict[Any, Any]], names: tuple[str, ...]) -> None:
    for record in records:
        for name in names:
            # Not by access: a defaultdict would insert it.
            if name not in record:
                raise missing_field(record, name)


def check_times(values: Sequence[Any], kind: pyarrow.DataType) -> None:
    """Raise ValueError for a value with a time that a column of this type would change."""
    check = time_check(kind)
    if check is None:
        return
    # The usual case, in a third of the time.
    if arrow.is_timestamp(kind) and set(map(type, values)) <= _MOMENTS:
        has_zone = kind.tz is not None
        if all(value is None or (value.tzinfo is not None) is has_zone for value in values):
            return
    for value in values:
        check(value)


def time_check(kind: pyarrow.DataType) -> TimeCheck | None:
    """Return a check of the values of a column, or None if it has no timestamps."""
    if arrow.is_timestamp(kind):
        return partial(_check_moment, kind.tz is not None)
    if arrow.is_dictionary(kind):
        return time_check(kind.value_type)
    if arrow.is_map(kind):
        return _of_parts([time_check(kind.key_type), time_check(kind.item_type)], dict.items)
    if arrow.is_struct(kind):
        names = tuple(field.name for field in kind)
        return _of_parts(
            [time_check(field.type) for field in kind], lambda value: [fields_of(value, names, has_all=False)]
        )
    if arrow.is_list(kind) or arrow.is_large_list(kind) or arrow.is_fixed_size_list(kind):
        return _of_parts([time_check(kind.value_type)], zip)
    return None


def _of_parts(checks: list[TimeCheck | None], tuples: Callable[[Any], Any]) -> TimeCheck | None:
    """Return a check of nested values. `tuples`: returns tuples with a value for each of the checks."""
    if not any(checks):
        return None

    def check(value: Any) -> None:
        for parts in () if value is None else tuples(value):
            for check_part, part in zip(checks, parts, strict=True):
                if check_part is not None:
                    check_part(part)

    return check


def _check_moment(has_zone: bool, value: Any) -> None:
    if isinstance(value, Instant):
        if value.nanos % 1000:
            raise ValueError(f"{value!r} is finer than a microsecond, the unit of the column: round it")
    elif isinstance(value, datetime.datetime) and value == value and (value.tzinfo is not None) is not has_zone:
        # Not equal to itself: NaT, by which pandas represents a missing value.
        if has_zone:
            raise ValueError(f"{value!r} has no zone, but the column has one: add the zone to the value")
        raise ValueError(
            f"{value!r} has a zone, but the column lacks one: convert it to a time without a zone, or declare "
            'pyarrow.timestamp("us", "UTC") in a pyarrow.Schema'
        )
