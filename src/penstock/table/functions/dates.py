"""Dates and times from text and numbers, and to text; the present. Patterns are those of Java's `DateTimeFormatter`.

Source: Flink docs, "System (Built-in) Functions", temporal functions.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions import datetime_text, java_dates
from penstock.table.functions.arrow_types import arrow_type, unit_of
from penstock.table.functions.cast_numbers import to_number
from penstock.table.functions.cast_text import shifted
from penstock.table.functions.columns import Column, as_array, is_constant, per_distinct, rows_of
from penstock.table.functions.datetime_text import DAY_S, PER_SECOND
from penstock.table.functions.errors import FunctionError, InvalidCallError
from penstock.table.functions.java_dates import Moment, PatternError
from penstock.table.functions.registry import Arguments, Call, Family
from penstock.table.functions.temporal_arithmetic import integers
from penstock.table.functions.uniform_text import read_timestamps
from penstock.table.functions.zones import local_from_utc, utc_from_local, zone_of
from penstock.table.logical_types import BIGINT, CHARACTER_STRING, DATE, INTEGER_NUMERIC, STRING, LogicalType

FAMILY = Family()

_DEFAULT = "yyyy-MM-dd HH:mm:ss"
_NANOS = 1_000_000_000
_TEXT = "<CHARACTER_STRING>"


def timestamp(precision: int, *, zoned: bool = False) -> LogicalType:
    """Return TIMESTAMP(precision) or TIMESTAMP_LTZ(precision)."""
    return LogicalType("TIMESTAMP_LTZ" if zoned else "TIMESTAMP", precision=precision)


@FAMILY.kernel("DATE_FORMAT", signatures=[f"<TIMESTAMP>, {_TEXT}", f"{_TEXT}, {_TEXT}"], result=STRING, nullable=True)
def date_format(call: Call) -> Column:
    """Write a time by a pattern."""
    column, kind = call.columns[0], call.types[0]
    if kind.root in CHARACTER_STRING:
        return per_distinct(_reformatted, call.columns, pa.string())
    if not is_constant(call.columns[1]) or is_constant(column) or not call.columns[1].is_valid:
        return per_distinct(
            _writer(kind, call.context.zone), [column.cast(_integers_of(kind)), call.columns[1]], pa.string()
        )
    values, mask = integers(column)
    return formatted_times(values, mask, kind, pattern=call.constant(1), zone=call.context.zone)


def _integers_of(kind: LogicalType) -> Any:
    return pa.int32() if kind.root in ("DATE", "TIME") else pa.int64()


def formatted_times(values: Any, mask: Any, kind: LogicalType, *, pattern: str, zone: str) -> Any:
    """Write times, each distinct one once: distinct in the finest unit that the pattern has."""
    per_second = _per_second(kind)
    if kind.root == "DATE":
        values = values * DAY_S
    if kind.root == "TIMESTAMP_LTZ":
        values = local_from_utc(values, per_second, zone)
    seconds = java_dates.step_seconds(pattern)
    step = 1 if seconds is None else seconds * per_second
    distinct, index = np.unique(values // step, return_inverse=True)
    texts = [java_dates.formatted(_moment(value * step, per_second), pattern) for value in distinct.tolist()]
    return pa.array(texts, pa.string()).take(pa.array(index.astype(np.int64), mask=mask))


def _per_second(kind: LogicalType) -> int:
    return 1 if kind.root == "DATE" else 1000 if kind.root == "TIME" else PER_SECOND[unit_of(kind.precision)]


def _moment(value: int, per_second: int) -> Moment:
    days, rest = divmod(value, per_second * DAY_S)
    return Moment(days, rest * (_NANOS // per_second))


def _writer(kind: LogicalType, zone: str) -> Any:
    def write(value: int, pattern: str) -> str:
        array = formatted_times(np.array([value]), np.array([False]), kind, pattern=pattern, zone=zone)
        return str(array[0])

    return write


def _reformatted(text: str, pattern: str) -> str | None:
    value = datetime_text.parse_timestamp(text, "ns", 9)
    return None if value is None else java_dates.formatted(_moment(value, _NANOS), pattern)


@FAMILY.kernel("TO_DATE", signatures=[_TEXT, f"{_TEXT}, {_TEXT}"], result=DATE, nullable=True)
def to_date(call: Call) -> Column:
    """Read a date, NULL if the text does not fit."""

    def read(text: str, pattern: str | None = None) -> int | None:
        if pattern is None:
            return datetime_text.parse_date(text)
        moment = java_dates.parsed_leniently(text, pattern)
        return None if moment is None else moment.days

    return per_distinct(read, call.columns, pa.int32()).cast(pa.date32())


@FAMILY.kernel("TO_TIMESTAMP", signatures=[_TEXT, f"{_TEXT}, {_TEXT}"], result=timestamp(3), nullable=True)
def to_timestamp(call: Call) -> Column:
    """Read a timestamp, NULL if the text does not fit."""
    text, *pattern = call.columns
    if not is_constant(text) and all(is_constant(one) and one.as_py() == _DEFAULT for one in pattern):
        values = read_timestamps(text, unit_of(call.result.precision), call.result.precision)
        if values is not None:
            return pa.array(values).cast(call.arrow_type)
    return per_distinct(_reader(call.result, None), call.columns, pa.int64()).cast(call.arrow_type)


def _reader(kind: LogicalType, zone: str | None) -> Any:
    """Return the function that reads text by a pattern, in a time zone or in that which the text comes with."""
    unit = unit_of(kind.precision)
    step = _NANOS // PER_SECOND[unit]
    digit = 10 ** max(9 - kind.precision, 0)

    def read(text: str, pattern: str = _DEFAULT, own_zone: str | None = None) -> int | None:
        if pattern == _DEFAULT:
            value = datetime_text.parse_timestamp(text, unit, kind.precision)
        else:
            moment = java_dates.parsed(text, pattern)
            if moment is None:  # Flink then takes what `java.sql.Timestamp` reads
                value = datetime_text.parse_timestamp(text.strip(), unit, kind.precision)
            else:
                value = (moment.days * DAY_S * _NANOS + moment.nanos // digit * digit) // step
        if value is None or zone is None:
            return value
        return int(utc_from_local(np.array([value]), PER_SECOND[unit], own_zone or zone)[0])

    def read_or_null(*arguments: str) -> int | None:
        """A pattern or zone that comes from a column may be invalid."""
        try:
            return read(*arguments)
        except FunctionError:
            return None

    return read_or_null


def _instant_type(arguments: Arguments) -> LogicalType:
    """Digits of a second are as many as the pattern has. A literal pattern or zone must be valid."""
    pattern, zone = arguments.literal(1), arguments.literal(2)
    if isinstance(zone, str):
        try:
            zone_of(zone)
        except FunctionError as error:
            raise InvalidCallError(f"Invalid timezone for parsing TIMESTAMP_LTZ: {error}") from None
    if not isinstance(pattern, str):
        return timestamp(max(3, pattern or 3), zoned=True)
    try:
        return timestamp(max(3, java_dates.fraction_digits(pattern)), zoned=True)
    except PatternError as error:
        raise InvalidCallError(f"Invalid pattern for parsing TIMESTAMP_LTZ: {error}") from None


_MIN_MILLIS = -62_167_219_200_000
_MAX_MILLIS = 253_402_300_799_999
"""From the year 0 to the year 9999."""


@FAMILY.kernel(
    "TO_TIMESTAMP_LTZ", nullable=True, result=_instant_type,
    signatures=["<NUMERIC>", "<NUMERIC>, <INTEGER>", _TEXT, f"{_TEXT}, {_TEXT}", f"{_TEXT}, {_TEXT}, {_TEXT}"],
)  # fmt: skip
def to_timestamp_ltz(call: Call) -> Column:
    """Return the instant of a number since the epoch, of seconds (precision 0), milliseconds (3), ...; or read text."""
    if call.types[0].root in CHARACTER_STRING or (call.types[0].root == "NULL" and len(call.types) != 1):
        zone = call.context.zone if len(call.columns) < 3 else "UTC"
        return per_distinct(_reader(call.result, zone), call.columns, pa.int64()).cast(call.arrow_type)
    per_second = PER_SECOND[unit_of(call.result.precision)]
    if call.types[0].root in INTEGER_NUMERIC and all(is_constant(one) and one.as_py() == 3 for one in call.columns[1:]):
        millis = call.columns[0].cast(pa.int64())
        known = pc.and_(pc.greater_equal(millis, _MIN_MILLIS), pc.less_equal(millis, _MAX_MILLIS))
        scaled = pc.multiply(millis, pa.scalar(per_second // 1000, pa.int64()))
        return pc.if_else(known, scaled, pa.scalar(None, pa.int64())).cast(call.arrow_type)

    def instant(value: Any, precision: int = 3) -> int | None:
        if not 0 <= precision <= 9:
            raise FunctionError(f"TO_TIMESTAMP_LTZ: expected a precision from 0 to 9, got {precision}")
        if not math.isfinite(value):
            return None
        units = int(Decimal(str(value))) * per_second // 10**precision
        return units if _MIN_MILLIS <= units * 1000 // per_second <= _MAX_MILLIS else None

    return per_distinct(instant, call.columns, pa.int64()).cast(call.arrow_type)


@FAMILY.kernel("FROM_UNIXTIME", signatures=["<NUMERIC>", f"<NUMERIC>, {_TEXT}"], result=STRING)
def from_unixtime(call: Call) -> Column:
    """Write seconds since the epoch by a pattern, in the session's time zone."""
    seconds = to_number(call.columns[0], call.types[0], BIGINT)
    kind, zone = timestamp(3, zoned=True), call.context.zone
    if len(call.columns) == 2 and not (is_constant(call.columns[1]) and call.columns[1].is_valid):
        return per_distinct(_writer(kind, zone), [pc.multiply(seconds, 1000), call.columns[1]], pa.string())
    rows = rows_of(call.columns)
    values, mask = integers(as_array(seconds, rows or 1))
    array = formatted_times(values * 1000, mask, kind, pattern=call.constant(1, _DEFAULT), zone=zone)
    return array[0] if rows is None else array


_NO_TIME = -(2**63)


@FAMILY.kernel(
    "CURRENT_WATERMARK",
    signatures=["<TIMESTAMP>"],
    result=lambda arguments: timestamp(3, zoned=arguments.types[0].root == "TIMESTAMP_LTZ"),
    nullable=True,
)
def current_watermark(call: Call) -> Column:
    """Return the operator's watermark, or NULL before the first one. The argument tells the type."""
    return pa.scalar(call.context.watermark_ms, pa.int64()).cast(call.arrow_type)


@FAMILY.kernel("UNIX_TIMESTAMP", signatures=["", _TEXT, f"{_TEXT}, {_TEXT}"], result=BIGINT, nullable=False)
def unix_timestamp(call: Call) -> Column:
    """Return the seconds since the epoch: of now, or of text in the session's time zone."""
    if not call.columns:
        return pa.scalar(call.context.now_us // 1_000_000, pa.int64())

    def seconds(text: str, pattern: str = _DEFAULT) -> int:
        moment = java_dates.parsed_leniently(text, pattern)
        if moment is None:
            return _NO_TIME
        local = np.array([moment.days * DAY_S + moment.nanos // _NANOS])
        return int(utc_from_local(local, 1, call.context.zone)[0])

    return per_distinct(seconds, call.columns, pa.int64())


@FAMILY.values("CONVERT_TZ", f"{_TEXT}, {_TEXT}, {_TEXT}", result=STRING, nullable=True)
def convert_tz(text: str, source: str, target: str) -> str | None:
    """Return a time `yyyy-MM-dd HH:mm:ss` of one time zone in another."""
    moment = java_dates.parsed_leniently(text, _DEFAULT)
    if moment is None:
        return None
    instant = utc_from_local(np.array([moment.days * DAY_S + moment.nanos // _NANOS]), 1, source)
    return datetime_text.timestamp_text(int(local_from_utc(instant, 1, target)[0]) * 1000, "ms", 0)


def _register_now(name: str, kind: LogicalType, signature: str = "") -> None:
    @FAMILY.kernel(name, signatures=[signature], result=kind, nullable=False)
    def _(call: Call) -> Column:
        micros = pa.scalar(call.context.now_us, pa.int64())
        if kind.root != "TIMESTAMP_LTZ":
            micros = shifted(micros, 1_000_000, call.context.zone, local_from_utc)
        if kind.root == "DATE":
            return pa.scalar(micros.as_py() // 1_000_000 // DAY_S, pa.int32()).cast(pa.date32())
        if kind.root == "TIME":
            return pa.scalar(micros.as_py() // 1000 % (DAY_S * 1000), pa.int32()).cast(arrow_type(kind))
        return pa.scalar(micros.as_py() // 1000, pa.int64()).cast(arrow_type(kind))


for _name in ("CURRENT_TIMESTAMP", "NOW", "CURRENT_ROW_TIMESTAMP", "PROCTIME"):
    _register_now(_name, timestamp(3, zoned=True))
# The planner's call where a row leaves a query with its attribute of processing time: the time is that of the call.
_register_now("PROCTIME_MATERIALIZE", timestamp(3, zoned=True), "<ANY>")
_register_now("LOCALTIMESTAMP", timestamp(3))
_register_now("LOCALTIME", LogicalType("TIME"))
_register_now("CURRENT_TIME", LogicalType("TIME"))
_register_now("CURRENT_DATE", DATE)
