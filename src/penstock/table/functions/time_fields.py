"""EXTRACT and its short forms (YEAR, HOUR, ...), FLOOR and CEIL to a unit of time. All on integers, in numpy.

A TIMESTAMP_LTZ is taken in the session's time zone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.table.functions import calendar
from penstock.table.functions.arrow_types import unit_of
from penstock.table.functions.columns import Column, as_array, rows_of
from penstock.table.functions.datetime_text import DAY_S, PER_SECOND
from penstock.table.functions.errors import InvalidCallError
from penstock.table.functions.registry import Arguments, Call, Family
from penstock.table.functions.temporal_arithmetic import from_integers, integers
from penstock.table.functions.zones import local_from_utc
from penstock.table.logical_types import BIGINT, INTERVALS, TIMESTAMPS, LogicalType

FAMILY = Family()

DayField = Callable[[Any], Any]


def _year(days: Any) -> Any:
    return calendar.year_and_month(days)[0]


_DAY_FIELDS: dict[str, DayField] = {
    "YEAR": _year,
    "QUARTER": lambda days: (calendar.year_and_month(days)[1] + 2) // 3,
    "MONTH": lambda days: calendar.year_and_month(days)[1],
    "WEEK": lambda days: calendar.iso_year_and_week(days)[1],
    "DAY": lambda days: calendar.month_and_day(days)[1],
    "DOY": calendar.day_of_year,
    "DOW": lambda days: calendar.iso_weekday(days) % 7 + 1,
    "ISODOW": calendar.iso_weekday,
    "ISOYEAR": lambda days: calendar.iso_year_and_week(days)[0],
    "DECADE": lambda days: _year(days) // 10,
    "CENTURY": lambda days: (_year(days) + 99) // 100,
    "MILLENNIUM": lambda days: (_year(days) + 999) // 1000,
}
_TIME_FIELDS = {"HOUR": (3600, 24), "MINUTE": (60, 60), "SECOND": (1, 60)}
_FRACTIONS = {"MILLISECOND": 1_000, "MICROSECOND": 1_000_000, "NANOSECOND": 1_000_000_000}


def _extracted_type(arguments: Arguments) -> LogicalType:
    unit = str(arguments.literal(0) or "").upper()
    kind = arguments.types[1]
    if unit not in {*_DAY_FIELDS, *_TIME_FIELDS, *_FRACTIONS, "EPOCH"}:
        raise InvalidCallError(f"expected a unit of time such as YEAR, got {unit}")
    if kind.root == "DATE" and unit in _FRACTIONS:
        raise InvalidCallError(f"{unit} can not be applied to {kind.summary}")
    return BIGINT.with_nullability(kind.nullable)


@FAMILY.kernel("EXTRACT", signatures=["<SYMBOL>, <DATETIME | INTERVAL>"], result=_extracted_type)
def extract(call: Call) -> Column:
    """Return a field of a time: EXTRACT(unit, time)."""
    return _field(call, call.constant(0).upper(), call.columns[1], call.types[1])


def _register(name: str, unit: str) -> None:
    @FAMILY.kernel(name, signatures=["<DATETIME>"], result=BIGINT)
    def _(call: Call) -> Column:
        return _field(call, unit, call.columns[0], call.types[0])


for _name in ("YEAR", "QUARTER", "MONTH", "WEEK", "HOUR", "MINUTE", "SECOND"):
    _register(_name, _name)
_register("DAYOFYEAR", "DOY")
_register("DAYOFMONTH", "DAY")
_register("DAYOFWEEK", "DOW")


def _field(call: Call, unit: str, column: Column, kind: LogicalType) -> Column:
    rows = rows_of([column])
    values, mask = integers(as_array(column, 1) if rows is None else column)
    if kind.root == "INTERVAL_MONTH":
        found = np.sign(values) * (np.abs(values) // 12) if unit == "YEAR" else np.sign(values) * (np.abs(values) % 12)
    else:
        found = _time_field(values, unit, kind, call.context.zone)
    array = pa.array(np.asarray(found, np.int64), mask=mask)
    return array[0] if rows is None else array


def per_second_of(kind: LogicalType) -> int:
    """Return how many units of a time make a second, 1 for dates, which are taken as seconds."""
    if kind.root in TIMESTAMPS:
        return PER_SECOND[unit_of(kind.precision)]
    return 1 if kind.root == "DATE" else 1000


def _time_field(values: Any, unit: str, kind: LogicalType, zone: str) -> Any:
    per_second = per_second_of(kind)
    if kind.root == "DATE":
        values = values * DAY_S
    if kind.root == "TIMESTAMP_LTZ" and unit != "EPOCH":
        values = local_from_utc(values, per_second, zone)
    if unit in _FRACTIONS:
        return _fraction(values, per_second, _FRACTIONS[unit])
    seconds = calendar.toward_zero(_millis(values, per_second), 1000) if per_second > 1 else values
    if unit == "EPOCH":
        return seconds
    if unit in _TIME_FIELDS:
        size, count = _TIME_FIELDS[unit]
        return np.sign(seconds) * (np.abs(seconds) // size % count)
    days = seconds // DAY_S if kind.root == "DATE" else calendar.toward_zero(seconds, DAY_S)
    return days if kind.root in INTERVALS else _DAY_FIELDS[unit](days)


def _millis(values: Any, per_second: int) -> Any:
    return values // (per_second // 1000)


def _fraction(values: Any, per_second: int, goal: int) -> Any:
    """Return the part of a second in units of which `goal` make one; milliseconds are negative before 1970."""
    millis = _millis(values, per_second)
    rest = values - millis * (per_second // 1000)
    below = rest * (goal // per_second) if goal >= per_second else rest // (per_second // goal)
    return np.sign(millis) * (np.abs(millis) % 1000) * (goal // 1000) + below


_FINE_S = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": DAY_S}
_YEARS = {"YEAR": 1, "DECADE": 10, "CENTURY": 100, "MILLENNIUM": 1000}


def floor_to(call: Call, *, up: bool) -> Column:
    """Cut a time to a unit, or with `up` return the start of the next unit unless the time is one."""
    column, kind, unit = call.columns[0], call.types[0], call.constant(1).upper()
    rows = rows_of([column])
    values, mask = integers(as_array(column, 1) if rows is None else column)
    per_second = per_second_of(kind)
    offsets = 0
    if kind.root == "TIMESTAMP_LTZ":
        offsets = local_from_utc(values, per_second, call.context.zone) - values
    local = values + offsets
    found = _date_to(local, unit, up) if kind.root == "DATE" else _time_to(local, unit, per_second, up)
    found = found - offsets
    array = from_integers(found, kind, mask)
    return array[0] if rows is None else array


def _date_to(days: Any, unit: str, up: bool) -> Any:
    if unit in _FRACTIONS or unit in ("SECOND", "MINUTE", "HOUR"):
        return days
    return _days_to(days, unit, up)


def _time_to(values: Any, unit: str, per_second: int, up: bool) -> Any:
    if unit in _FRACTIONS:
        size = max(per_second // _FRACTIONS[unit], 1)
    elif unit in _FINE_S:
        size = per_second * _FINE_S[unit]
        values = values - values % (per_second // 1000)  # Flink looks at milliseconds only
    else:
        per_day = per_second * DAY_S
        return _days_to(calendar.toward_zero(values, per_day), unit, up) * per_day
    return (-(-values // size) if up else values // size) * size


def _days_to(days: Any, unit: str, up: bool) -> Any:
    """Floor or ceil days as Calcite does: its ceilings to DAY, QUARTER, DECADE, CENTURY and MILLENNIUM go one further.

    A day that is the first of such a unit is not its own ceiling, except of the first quarter of a year.
    """
    if unit == "DAY":
        return days + 1 if up else days
    if unit == "WEEK":  # from Sunday to Saturday
        return -(-(days + 4) // 7) * 7 - 4 if up else (days + 4) // 7 * 7 - 4
    if unit not in ("MONTH", "QUARTER", *_YEARS):
        raise InvalidCallError(f"expected a unit of time such as MONTH, got {unit}")
    months, _ = calendar.month_and_day(days)
    size = {"MONTH": 1, "QUARTER": 3}.get(unit) or 12 * _YEARS[unit]
    origin = -1969 * 12 if unit in ("CENTURY", "MILLENNIUM") else -1970 * 12
    start = (months - origin) // size * size + origin
    floor = calendar.first_day(start)
    if not up:
        return floor
    if unit in ("MONTH", "YEAR"):
        stays = floor == days
    elif unit == "QUARTER":
        stays = (floor == days) & (start % 12 == 0)
    else:
        stays = np.zeros(np.shape(days), bool)
    return np.where(stays, floor, calendar.first_day(start + size))
