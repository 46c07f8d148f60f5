"""Times plus intervals, intervals plus intervals, OVERLAPS, TIMESTAMPDIFF and TIMESTAMPADD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions.arrow_types import arrow_type, unit_of
from penstock.table.functions.calendar import days_in_month, month_and_day
from penstock.table.functions.columns import Column, all_null, as_array, is_constant, rows_of
from penstock.table.functions.datetime_text import PER_SECOND, in_units
from penstock.table.functions.errors import InvalidCallError
from penstock.table.functions.java_text import MILLIS_PER_DAY
from penstock.table.functions.registry import Arguments, Call, Family
from penstock.table.logical_types import BOOLEAN, DATETIME, INT, INTERVALS, TIMESTAMPS, LogicalType

FAMILY = Family()


def sum_type(types: Sequence[LogicalType]) -> LogicalType:
    """Return the type of a sum of times and intervals. Raises InvalidCallError if there is none."""
    left, right = types
    nullable = left.nullable or right.nullable
    for one, other in ((left, right), (right, left)):
        if one.root in DATETIME and other.root in INTERVALS:
            return one.with_nullability(nullable)
    if left.root == right.root and left.root in INTERVALS:
        return left.with_nullability(nullable)
    raise InvalidCallError(f"Cannot apply '+' to arguments of type <{left.summary}> and <{right.summary}>.")


def add(call: Call, sign: int = 1) -> Column:
    """Return the sum of a time and an interval or of two intervals; with `sign` -1 the difference."""
    (left, right), (left_type, right_type) = call.columns, call.types
    if left_type.root in DATETIME and right_type.root in DATETIME:
        return _between(call)
    if left_type.root in INTERVALS and right_type.root in DATETIME:
        left, right, left_type, right_type = right, left, right_type, left_type
    if left_type.root in INTERVALS:
        return (pc.add if sign > 0 else pc.subtract)(left, right)
    return plus(left, right, left_type, right_type, sign=sign)


def plus(time: Column, interval: Column, kind: LogicalType, interval_kind: LogicalType, *, sign: int = 1) -> Column:
    """Add an interval to a time. The day of a month that is too short is its last."""
    rows = rows_of([time, interval])
    if interval_kind.root == "INTERVAL_SECOND" and kind.root in TIMESTAMPS:
        return (pc.add_checked if sign > 0 else pc.subtract_checked)(time, interval).cast(arrow_type(kind))
    if (is_constant(interval) and not interval.is_valid) or (is_constant(time) and not time.is_valid):
        return all_null([time, interval], arrow_type(kind))
    times, mask = integers(as_array(time, rows or 1))
    amounts, other_mask = integers(as_array(interval, rows or 1))
    moved = moved_by_months(times, kind, sign * amounts) if interval_kind.root == "INTERVAL_MONTH" else (
        _moved_by_millis(times, kind, sign * amounts)
    )  # fmt: skip
    array = from_integers(moved, kind, mask | other_mask)
    return array[0] if rows is None else array


def integers(array: Any) -> tuple[Any, Any]:
    """Return the int64 values that Arrow holds, 0 for NULL, and the mask of NULLs."""
    narrow = pa.types.is_date32(array.type) or pa.types.is_time32(array.type)
    values = array.cast(pa.int32() if narrow else pa.int64()).fill_null(0)
    return values.to_numpy().astype(np.int64), array.is_null().to_numpy(zero_copy_only=False)


def from_integers(values: Any, kind: LogicalType, mask: Any) -> Any:
    """Return a column of dates, times or timestamps."""
    narrow = kind.root in ("DATE", "TIME", "INTERVAL_MONTH", "INT")
    return pa.array(values.astype(np.int32 if narrow else np.int64), mask=mask).cast(arrow_type(kind))


def _moved_by_millis(times: Any, kind: LogicalType, millis: Any) -> Any:
    if kind.root == "DATE":
        return times + millis // MILLIS_PER_DAY
    return (times + millis) % MILLIS_PER_DAY


def moved_by_months(times: Any, kind: LogicalType, months: Any) -> Any:
    """Return times some months later."""
    if kind.root == "TIME":
        return times
    per_day = 1 if kind.root == "DATE" else PER_SECOND[unit_of(kind.precision)] * 86_400
    days, rest = np.divmod(times, per_day)
    month, day = month_and_day(days)
    goal = month + months
    first = goal.astype("M8[M]").astype("M8[D]").astype(np.int64)
    return in_units(first + np.minimum(day, days_in_month(goal)) - 1, per_day) + rest


_DIFFERENCE = ["<SYMBOL>, <TIMESTAMP | DATE | TIME>, <TIMESTAMP | DATE | TIME>"]
_MILLIS = {"SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": MILLIS_PER_DAY, "WEEK": 7 * MILLIS_PER_DAY}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120, "CENTURY": 1200}


@FAMILY.kernel("TIMESTAMPDIFF", signatures=_DIFFERENCE, result=INT)
def timestampdiff(call: Call) -> Column:
    """Return how many whole units lie between two times: TIMESTAMPDIFF(DAY, from, to)."""
    unit = call.constant(0).upper()
    start, end = (_millis(call, index) for index in (1, 2))
    if unit in _MILLIS:
        quotient = _toward_zero(end[0] - start[0], _MILLIS[unit])
    elif unit in _MONTHS:
        quotient = _toward_zero(_months_between(start[0], end[0]), _MONTHS[unit])
    else:
        raise InvalidCallError(f"TIMESTAMPDIFF: expected a unit such as DAY, got {unit}")
    array = from_integers(quotient, call.result, start[1] | end[1])
    return array[0] if rows_of(call.columns) is None else array


def _between(call: Call) -> Column:
    """Return the interval between two times, as the planner writes TIMESTAMPDIFF: months or milliseconds."""
    end, start = (_millis(call, index) for index in (0, 1))
    in_months = call.result.root == "INTERVAL_MONTH"
    length = _months_between(start[0], end[0]) if in_months else end[0] - start[0]
    array = from_integers(length, call.result, start[1] | end[1])
    return array[0] if rows_of(call.columns) is None else array


def _millis(call: Call, index: int) -> tuple[Any, Any]:
    """Return a time as milliseconds."""
    kind = call.types[index]
    values, mask = integers(as_array(call.columns[index], rows_of(call.columns) or 1))
    if kind.root == "DATE":
        values = values * MILLIS_PER_DAY
    elif kind.root != "TIME":
        values = values // (PER_SECOND[unit_of(kind.precision)] // 1000)
    return values, mask


def _toward_zero(values: Any, divisor: int) -> Any:
    return np.sign(values) * (np.abs(values) // divisor)


def _months_between(start: Any, end: Any) -> Any:
    """Return the months that can be added to the earlier time in milliseconds without passing the later one."""
    earlier, later = np.minimum(start, end), np.maximum(start, end)
    months = month_and_day(later // MILLIS_PER_DAY)[0] - month_and_day(earlier // MILLIS_PER_DAY)[0]
    passed = moved_by_months(earlier, LogicalType("TIMESTAMP", precision=3), months) > later
    return np.where(end < start, -1, 1) * (months - passed)


def _sum_result(arguments: Arguments) -> LogicalType:
    kind = arguments.types[2]
    if kind.root == "DATE" and str(arguments.literal(0)).upper() in ("HOUR", "MINUTE", "SECOND"):
        kind = LogicalType("TIMESTAMP", precision=6)
    return kind.with_nullability(arguments.nullable)


@FAMILY.kernel("TIMESTAMPADD", signatures=["<SYMBOL>, <INTEGER>, <TIMESTAMP | DATE | TIME>"], result=_sum_result)
def timestampadd(call: Call) -> Column:
    """Add a number of units to a time: TIMESTAMPADD(DAY, 3, time)."""
    unit = call.constant(0).upper()
    amount = call.columns[1]
    if unit in _MONTHS:
        interval = pc.multiply(amount.cast(pa.int32(), safe=False), pa.scalar(_MONTHS[unit], pa.int32()))
        kind = LogicalType("INTERVAL_MONTH")
    elif unit in _MILLIS:
        interval = pc.multiply(amount.cast(pa.int64()), _MILLIS[unit]).cast(pa.duration("ms"))
        kind = LogicalType("INTERVAL_SECOND")
    else:
        raise InvalidCallError(f"TIMESTAMPADD: expected a unit such as DAY, got {unit}")
    time, time_kind = call.columns[2], call.types[2]
    if time_kind.root == "DATE" and call.result.root == "TIMESTAMP":
        time, time_kind = time.cast(call.arrow_type), call.result
    return plus(time, interval, time_kind, kind)


_PERIODS = ["<DATETIME>, <DATETIME | INTERVAL>, <DATETIME>, <DATETIME | INTERVAL>"]


def _overlap_type(arguments: Arguments) -> LogicalType:
    roots = {arguments.types[0].root, arguments.types[2].root}
    roots |= {one.root for one in (arguments.types[1], arguments.types[3]) if one.root not in INTERVALS}
    if len(roots - {"NULL"}) > 1:
        raise InvalidCallError("OVERLAPS: expected two periods of one type of times")
    return BOOLEAN.with_nullability(arguments.nullable)


@FAMILY.kernel("OVERLAPS", "TEMPORAL_OVERLAPS", signatures=_PERIODS, result=_overlap_type)
def overlaps(call: Call) -> Column:
    """Tell whether two periods, each of a start and an end or a length, have a moment in common."""
    bounds: list[Column] = []
    for start, end in ((0, 1), (2, 3)):
        first, last = call.columns[start], call.columns[end]
        if call.types[end].root in INTERVALS:
            last = plus(first, last, call.types[start], call.types[end])
        ordered = pc.less_equal(first, last)
        bounds += [pc.if_else(ordered, first, last), pc.if_else(ordered, last, first)]
    return pc.and_kleene(pc.greater_equal(bounds[1], bounds[2]), pc.greater_equal(bounds[3], bounds[0]))
