"""Values as fastavro takes them by a schema: records become dicts on all levels, by name or by position.

A Row without field names, one whose names are those of a type without names (f0, f1 …), a list and a tuple are records
by position. Source: Flink's AvroRowSerializationSchema, which takes the fields of all rows by position.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from numbers import Integral
from typing import Any

from penstock.common.basic_types import BasicType
from penstock.common.floats import within_single
from penstock.common.integers import beyond_bounds, bounds_of
from penstock.common.types import Row
from penstock.common.whole_numbers import whole_number

Make = Callable[[Any], Any]
_LEAST, _MOST = bounds_of(BasicType.INT)


def maker_of(schema: Any) -> Make:
    """What makes values of a schema that fastavro has parsed. It raises ValueError for a record of another length."""
    return _maker(schema, {}) or (lambda value: value)


def _maker(schema: Any, known: dict[str, Make | None]) -> Make | None:
    """None: values are taken as they are."""
    if isinstance(schema, str):
        return _PRIMITIVE.get(schema) or known.get(schema)
    if isinstance(schema, list):
        return _of_union(schema, known)
    kind = schema["type"]
    if kind == "record":
        return _of_record(schema, known)
    if kind == "array":
        of_item = _maker(schema["items"], known)
        return of_item and _of_array(of_item)
    if kind == "map":
        of_entry = _maker(schema["values"], known)
        return of_entry and _of_map(of_entry)
    if isinstance(kind, str):
        return _LOGICAL.get(schema["logicalType"]) if "logicalType" in schema else _PRIMITIVE.get(kind)
    return _maker(kind, known)


def _of_int(value: Any) -> Any:
    # Avro writes an int as a long, and other readers refuse one that is too large, or cut it.
    number = _of_long(value)
    if not _LEAST <= number <= _MOST:
        raise beyond_bounds(number, BasicType.INT)
    return number


def _of_long(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{value} is no number")
    return whole_number(value)


def _of_float(value: Any) -> Any:
    return within_single(_exactly(24, value))


def _of_double(value: Any) -> Any:
    return _exactly(53, value)


def _exactly(bits: int, value: Any) -> Any:
    """`value`: an int that a float of so many bits of precision holds, or anything else."""
    if type(value) is int and abs(value) >> bits:
        raise ValueError(f"{value} has more digits than a {'float' if bits == 24 else 'double'} holds")
    return value


def _of_boolean(value: Any) -> Any:
    # fastavro writes whatever is there as true.
    if value not in (True, False):
        raise ValueError(f"{value!r:.200} is no boolean")
    return value


_PRIMITIVE: dict[str, Make] = {
    "int": _of_int,
    "long": _of_long,
    "float": _of_float,
    "double": _of_double,
    "boolean": _of_boolean,
}


def _of_moment(value: Any) -> Any:
    # fastavro takes one without a zone for the time of the worker's machine; in all other formats it is in UTC.
    if not isinstance(value, datetime.datetime):
        return _of_long(value)
    if getattr(value, "nanosecond", False):
        raise ValueError(f"{value!r} has nanoseconds: round it to microseconds")
    return value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value


def _of_local(value: Any) -> Any:
    # fastavro drops a zone.
    moment = _of_moment(value)
    return moment.astimezone(datetime.UTC).replace(tzinfo=None) if isinstance(moment, datetime.datetime) else moment


def _of_time(value: Any) -> Any:
    if not isinstance(value, datetime.time):
        return _of_long(value)
    if value.tzinfo is not None:
        raise ValueError(f"{value!r} has a zone, and a time of day has none")
    return value


def _millis(make: Make) -> Make:
    """The same, of what has no microseconds: fastavro cuts them off."""

    def of_millis(value: Any) -> Any:
        made = make(value)
        if isinstance(made, (datetime.datetime, datetime.time)) and made.microsecond % 1000:
            raise ValueError(f"{value!r} is finer than milliseconds: round it, or have a type of microseconds")
        return made

    return of_millis


def _of_date(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        raise ValueError(f"{value!r} is no date: its time would be lost")
    return value if isinstance(value, (datetime.date, str)) else _of_int(value)


_LOGICAL: dict[str, Make] = {
    "timestamp-millis": _millis(_of_moment),
    "timestamp-micros": _of_moment,
    "local-timestamp-millis": _millis(_of_local),
    "local-timestamp-micros": _of_local,
    "time-millis": _millis(_of_time),
    "time-micros": _of_time,
    "date": _of_date,
}
_CLASSES = {"date": datetime.date, "time": datetime.time}
"""Of Python, by how the name of a logical type begins. All others are datetimes."""


def _of_record(schema: Any, known: dict[str, Make | None]) -> Make:
    # A record may contain itself.
    known[schema["name"]] = lambda value: make(value)
    names = [field["name"] for field in schema["fields"]]
    makers = {field["name"]: _maker(field["type"], known) for field in schema["fields"]}

    def make(value: Any) -> Any:
        fields = _fields(value, names)
        if fields is None:
            return value
        return {
            name: field if (of_field := makers.get(name)) is None else of_field(field) for name, field in fields.items()
        }

    return make


def _fields(value: Any, names: list[str]) -> dict[str, Any] | None:
    """The fields of a record by name; None if it is none."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, (Row, tuple, list)):
        return None
    own = getattr(value, "_fields", None)
    if own is not None and not _is_unnamed(own):
        return dict(zip(own, value, strict=True))
    if len(value) != len(names):
        raise ValueError(f"{value!r:.200} has {len(value)} values, and the record has {len(names)}: {', '.join(names)}")
    return dict(zip(names, value, strict=True))


def _is_unnamed(names: tuple[str, ...]) -> bool:
    return names == tuple(f"f{position}" for position in range(len(names)))


def _of_array(of_item: Make) -> Make:
    return lambda value: list(map(of_item, value)) if isinstance(value, (list, tuple)) else value


def _of_map(of_entry: Make) -> Make:
    def make(value: Any) -> Any:
        return {key: of_entry(entry) for key, entry in value.items()} if isinstance(value, dict) else value

    return make


def _of_union(branches: list[Any], known: dict[str, Make | None]) -> Make | None:
    of_number = _of_numbers(branches)
    nested = [branch for branch in branches if not (isinstance(branch, str) and branch in _PRIMITIVE)]
    of_times = _of_times(nested)
    makers = [
        (_kind(branch, known), of_branch)
        for branch in nested
        if not _logical(branch) and (of_branch := _maker(branch, known))
    ]
    has_arrays = any(kind == "array" for kind, _ in makers)

    def make(value: Any) -> Any:
        kinds: tuple[str, ...] = ("record",)
        if isinstance(value, dict):
            kinds = ("record", "map")
        elif not isinstance(value, (Row, list, tuple)):
            if isinstance(value, (float, int)):
                return of_number(value)
            if (found := next((of_time for kind, of_time in of_times if isinstance(value, kind)), None)) is not None:
                return found(value)
            # Such as those of numpy.
            return of_number(value) if isinstance(value, Integral) else value
        elif has_arrays and not isinstance(value, Row) and not hasattr(value, "_fields"):
            kinds = ("array",)
        fitting = [of_branch for kind, of_branch in makers if kind in kinds]
        # Of several, fastavro finds the branch by the names of the fields.
        return fitting[0](value) if len(fitting) == 1 else _by_names(value)

    return make


def _of_numbers(branches: list[Any]) -> Make:
    """Of a union. fastavro takes the first branch that a number fits: any number fits a float, 1.0 no integer."""
    # Of both, fastavro takes a double.
    of_float = next((_PRIMITIVE[kind] for kind in ("double", "float") if kind in branches), None)
    integers = [branch for branch in branches if branch in ("int", "long")]
    # With another branch of that type its name would be of either.
    named = not any(isinstance(branch, dict) and branch["type"] in integers for branch in branches)

    def make(value: Any) -> Any:
        if isinstance(value, bool) or not (of_float or integers):
            return value
        if of_float is not None and (isinstance(value, float) or not integers):
            return of_float(value)
        number = whole_number(value)
        if of_float is None:
            return number
        if not named:
            return of_float(number)
        wide = integers[0] == "int" and not _LEAST <= number <= _MOST
        # As fastavro is told which branch it is.
        return integers[-1 if wide else 0], number

    return make


def _logical(branch: Any) -> str | None:
    """The logical type of a branch that has one with a class of Python's."""
    found = branch.get("logicalType") if isinstance(branch, dict) else None
    return found if found in _LOGICAL else None


def _of_times(branches: list[Any]) -> list[tuple[type, Make]]:
    """What makes a branch's value, by classes of Python; a datetime is a date, too, and is looked for first."""
    found = [
        (_CLASSES.get(name.partition("-")[0], datetime.datetime), _LOGICAL[name])
        for name in map(_logical, branches)
        if name is not None
    ]
    return sorted(found, key=lambda one: one[0] is datetime.date)


def _kind(branch: Any, known: dict[str, Make | None]) -> str:
    """`record` for a name: nothing else that has one needs a maker."""
    kind = "record" if isinstance(branch, str) else branch["type"]
    return kind if isinstance(kind, str) else _kind(kind, known)


def _by_names(value: Any) -> Any:
    """Without a schema: what has names becomes a dict, all else a list."""
    if isinstance(value, Row):
        value = list(value) if value._fields is None else value.as_dict()
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: _by_names(item) for key, item in value.items()}
    return [_by_names(item) for item in value] if isinstance(value, (list, tuple)) else value
