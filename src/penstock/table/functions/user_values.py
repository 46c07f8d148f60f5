"""Values of columns as users' functions and streams have them, and columns of what these return.

Rows in rows are Rows, arrays lists, maps dicts, instants aware datetimes in UTC. Source: PyFlink docs, "Data Types".
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa

from penstock.common.columns.checks import checked_array, column_check
from penstock.common.columns.to_values import microseconds_reader
from penstock.common.time import Instant
from penstock.common.types import Row, row_factory
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.functions.zones import zone_of
from penstock.table.logical_types import MAX_PRECISION, ROWS, LogicalType

_DIGITS = decimal.Context(prec=2 * MAX_PRECISION)
"""More digits than Python's usual context, which decimals of SQL may exceed."""
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
Convert = Callable[[Any], Any]


def reader_of(logical: LogicalType, *, instants: bool = False) -> Callable[[pa.Array], list[Any]]:
    """Return the function from a column of this type to Python values.

    `instants`: points in time are Instants, as in streams, not datetimes.
    """
    read, convert = microseconds_reader(arrow_type(logical)), _from_column(logical, instants)
    if convert is None:
        return read
    return lambda column: [None if value is None else convert(value) for value in read(column)]


def _from_column(logical: LogicalType, instants: bool) -> Convert | None:
    """Return what makes a user's value of one of Arrow that is not None; None if they are the same."""
    if instants and logical.root == "TIMESTAMP_LTZ":
        return _instant
    parts = [_from_column(one, instants) for one in logical.children]
    if logical.root in ROWS:
        make, fields = row_factory(logical.names), list(zip(logical.names, parts, strict=True))
        return lambda value: make([_each(part, value[name]) for name, part in fields])
    if logical.root == "ARRAY":
        return None if parts[0] is None else lambda value: [_each(parts[0], one) for one in value]
    if logical.root in ("MAP", "MULTISET"):
        second = parts[1] if logical.root == "MAP" else None
        return lambda value: {_each(parts[0], key): _each(second, one) for key, one in value}
    return None


def _instant(moment: datetime.datetime) -> Instant:
    micros = (moment - _EPOCH) // datetime.timedelta(microseconds=1)
    return Instant(micros // 1_000_000, micros % 1_000_000 * 1000)


def writer_of(logical: LogicalType, zone: str = "UTC") -> Callable[[Sequence[Any]], pa.Array]:
    """Return the function from Python values to a column of this type.

    Decimals are rounded (half up), and NULL if they have too many digits, as in Flink. A datetime without a zone is an
    instant in `zone`. The function raises TypeError or ValueError for a value that does not fit.
    """
    kind, convert = arrow_type(logical), _to_column(logical, zone)
    check = column_check(kind)

    def write(values: Sequence[Any]) -> pa.Array:
        if convert is not None:
            values = [None if value is None else convert(value) for value in values]
        return checked_array(values, kind, check)

    return write


def _to_column(logical: LogicalType, zone: str) -> Convert | None:
    """Return what makes a value for Arrow of a user's value that is not None; None if they are the same."""
    if logical.root == "DECIMAL":
        return _Rounded(logical.precision, logical.scale)
    if logical.root == "TIMESTAMP_LTZ":
        return _Moment(zone)
    if logical.root in ("TIMESTAMP", "TIME") and logical.precision < 6:
        return _Truncated(logical.precision)
    parts = [_to_column(one, zone) for one in logical.children]
    if logical.root in ROWS:
        return _Fields(logical, parts)
    if logical.root == "ARRAY":
        return lambda value: [_each(parts[0], one) for one in _list(value, logical)]
    if logical.root in ("MAP", "MULTISET"):
        second = parts[1] if logical.root == "MAP" else None
        return lambda value: [(_each(parts[0], key), _each(second, one)) for key, one in value.items()]
    return None


class _Rounded:
    def __init__(self, precision: int, scale: int) -> None:
        self._unit = Decimal(1).scaleb(-scale)
        self._least = Decimal(1).scaleb(precision - scale)

    def __call__(self, value: Any) -> Decimal | None:
        if isinstance(value, bool) or not isinstance(value, (Decimal, int)):
            raise TypeError(f"expected a Decimal, got {value!r:.200}")
        number = Decimal(value)
        if abs(number) >= self._least:
            return None
        rounded = number.quantize(self._unit, ROUND_HALF_UP, _DIGITS)
        return None if abs(rounded) >= self._least else rounded


class _Moment:
    """A moment for a column of instants."""

    def __init__(self, zone: str) -> None:
        self._zone = zone_of(zone)

    def __call__(self, value: Any) -> Any:
        if isinstance(value, Instant):
            return _EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
        if not isinstance(value, datetime.datetime):
            raise TypeError(f"expected a datetime or an Instant, got {value!r:.200}")
        return value if value.tzinfo is not None else value.replace(tzinfo=self._zone)


class _Truncated:
    """A time without the digits that its column does not have, as in Flink."""

    def __init__(self, precision: int) -> None:
        self._unit = 10 ** (6 - precision)

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, (datetime.datetime, datetime.time)) or value != value:
            # The check of the column refuses other values, and reads NaT of pandas as NULL.
            return value
        return value.replace(microsecond=value.microsecond // self._unit * self._unit)


class _Fields:
    """The fields of a Row, a tuple or a list by place, those of a dict by name."""

    def __init__(self, logical: LogicalType, parts: Sequence[Convert | None]) -> None:
        self._names = logical.names
        self._parts = parts

    def __call__(self, value: Any) -> dict[str, Any]:
        if isinstance(value, Row) and value._fields is not None and set(value._fields) == set(self._names):
            # A Row without these names, such as Row(word="a") for ROW<f0 STRING>, has its fields by place.
            value = value.as_dict()
        if isinstance(value, Mapping):
            if missing := sorted(set(value) - set(self._names)):
                raise ValueError(f"expected the fields {', '.join(self._names)}, got {missing[0]!r} in {value!r:.200}")
            value = [value.get(name) for name in self._names]
        elif not isinstance(value, (Row, tuple, list)):
            raise TypeError(f"expected a Row with {', '.join(self._names)}, got {value!r:.200}")
        if len(value) != len(self._names):
            raise ValueError(f"expected {len(self._names)} fields ({', '.join(self._names)}), got {value!r:.200}")
        return {name: _each(part, one) for name, part, one in zip(self._names, self._parts, value, strict=True)}


def _list(value: Any, logical: LogicalType) -> Any:
    if isinstance(value, (str, bytes, Mapping)):
        raise TypeError(f"expected a list for {logical}, got {value!r:.200}")
    return value


def _each(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)
