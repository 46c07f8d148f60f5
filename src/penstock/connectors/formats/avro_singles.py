"""Convert single values for fastavro, and refuse those that it would cut or change silently."""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Callable
from numbers import Integral
from typing import Any

from penstock.common.types.basic_types import BasicType
from penstock.common.types.floats import single
from penstock.common.types.integers import beyond_bounds, bounds_of
from penstock.common.types.whole_numbers import whole_number

Make = Callable[[Any], Any]
INT_MIN, INT_MAX = bounds_of(BasicType.INT)


def of_int(value: Any) -> int:
    """Return a 32-bit integer. Avro writes an int as a long: other readers would refuse or cut a larger value."""
    number = of_long(value)
    if not INT_MIN <= number <= INT_MAX:
        raise beyond_bounds(number, BasicType.INT)
    return number


def of_long(value: Any) -> int:
    """Return an integer; fastavro itself refuses one of more than 64 bits."""
    if type(value) is int:
        return value
    if isinstance(value, bool):
        raise ValueError(f"{value} is not a number")
    return whole_number(value)


def of_float(value: Any) -> float:
    """Return a number that fits a 32-bit float. Fractions are rounded, integers must be exact."""
    number = of_double(value)
    found = single(number)
    if isinstance(value, Integral) and int(found) != int(value):
        raise ValueError(f"{value} has more digits than a float can store")
    return number


def of_double(value: Any) -> float:
    """Return a float. An integer must be exact, and a finite number stay finite."""
    if type(value) is float:
        return value
    if isinstance(value, (str, bytes, bool)) or not hasattr(value, "__float__"):
        raise ValueError(f"{value!r:.200} is not a number")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if isinstance(value, Integral) and (math.isinf(found) or int(found) != int(value)):
        raise ValueError(f"{value} has more digits than a double can store")
    if math.isinf(found) and value != found:
        raise ValueError(f"{value!r:.200} exceeds the range of a double")
    return found


def _of_boolean(value: Any) -> Any:
    # fastavro writes any other value as true.
    if value not in (True, False):
        raise ValueError(f"{value!r:.200} is not a boolean")
    return value


def _of_null(value: Any) -> None:
    # fastavro ignores the value.
    if value is not None:
        raise ValueError(f"{value!r:.200} is not None")


PRIMITIVE: dict[str, Make] = {
    "null": _of_null,
    "int": of_int,
    "long": of_long,
    "float": of_float,
    "double": of_double,
    "boolean": _of_boolean,
}


def _of_moment(value: Any) -> Any:
    # fastavro reads a datetime without a zone as the machine's local time; all other formats read it as UTC.
    if not isinstance(value, datetime.datetime):
        return of_long(value)
    if getattr(value, "nanosecond", False):
        raise ValueError(f"{value!r} has nanoseconds, Avro has microseconds: round it")
    return value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value


def _of_local(value: Any) -> Any:
    # fastavro drops the zone.
    moment = _of_moment(value)
    return moment.astimezone(datetime.UTC).replace(tzinfo=None) if isinstance(moment, datetime.datetime) else moment


def _of_time(units_per_day: int) -> Make:
    """Return a converter of times of day. `units_per_day`: the number of units in a day."""

    def of_time(value: Any) -> Any:
        if not isinstance(value, datetime.time):
            number = of_long(value)
            if not 0 <= number < units_per_day:
                raise ValueError(f"{number} is not a time of day: expected less than {units_per_day:,}")
            return number
        if value.tzinfo is not None:
            raise ValueError(f"{value!r} has a zone, expected a time of day without a zone")
        return value

    return of_time


def _millis(make: Make) -> Make:
    """Return a converter that refuses microseconds, which fastavro would cut off."""

    def of_millis(value: Any) -> Any:
        made = make(value)
        if isinstance(made, (datetime.datetime, datetime.time)) and made.microsecond % 1000:
            raise ValueError(f"{value!r} is finer than milliseconds: round it, or declare a type with microseconds")
        return made

    return of_millis


def _of_date(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        raise ValueError(f"{value!r} is not a date: its time would be lost")
    return value if isinstance(value, (datetime.date, str)) else of_int(value)


def _of_uuid(value: Any) -> Any:
    # fastavro writes any text, and then cannot read it.
    return value if isinstance(value, uuid.UUID) else str(uuid.UUID(value))


LOGICAL: dict[str, Make] = {
    "timestamp-millis": _millis(_of_moment),
    "timestamp-micros": _of_moment,
    "local-timestamp-millis": _millis(_of_local),
    "local-timestamp-micros": _of_local,
    "time-millis": _millis(_of_time(86_400_000)),
    "time-micros": _of_time(86_400_000_000),
    "date": _of_date,
    "uuid": _of_uuid,
}
BASES = dict.fromkeys(LOGICAL, "long") | {"time-millis": "int", "date": "int", "uuid": "string"}
"""The types that logical types are defined for; on another type a logical type is ignored."""
TIMES: dict[str, type] = {
    name: {"date": datetime.date, "time": datetime.time}.get(name.partition("-")[0], datetime.datetime)
    for name in LOGICAL
    if name != "uuid"
}
"""Logical types whose values have a class in Python."""


def single_maker(kind: str, logical: str | None) -> Make | None:
    """Return the converter of a type that is neither nested nor named; None if fastavro refuses invalid values.

    Unknown logical types are ignored. Source: Avro's specification, "Logical Types".
    """
    return LOGICAL[logical] if logical is not None and BASES.get(logical) == kind else PRIMITIVE.get(kind)
