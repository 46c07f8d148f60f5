"""Values as fastavro takes them by a schema: records become dicts on all levels, by name or by position.

A Row without field names, one whose names are those of a type without names (f0, f1 …), a list and a tuple are records
by position. Source: Flink's AvroRowSerializationSchema, which takes the fields of all rows by position.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
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
    number = whole_number(value)
    if not _LEAST <= number <= _MOST:
        raise beyond_bounds(number, BasicType.INT)
    return number


def _of_boolean(value: Any) -> Any:
    # fastavro writes whatever is there as true.
    if value not in (True, False):
        raise ValueError(f"{value!r:.200} is no boolean")
    return value


_PRIMITIVE: dict[str, Make] = {"int": _of_int, "long": whole_number, "boolean": _of_boolean, "float": within_single}


def _of_moment(value: Any) -> Any:
    # fastavro takes one without a zone for the time of the worker's machine; in all other formats it is in UTC.
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value
    return whole_number(value)


def _of_date(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        raise ValueError(f"{value!r} is no date: its time would be lost")
    return value if isinstance(value, (datetime.date, str)) else whole_number(value)


_LOGICAL: dict[str, Make] = {"timestamp-millis": _of_moment, "timestamp-micros": _of_moment, "date": _of_date}


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
    # Numbers and booleans are fastavro's: of a union it takes the branch that they fit, the first for a float.
    is_single = next((branch == "float" for branch in branches if branch in ("float", "double")), False)
    nested = [branch for branch in branches if not (isinstance(branch, str) and branch in _PRIMITIVE)]
    makers = [(_kind(branch, known), of_branch) for branch in nested if (of_branch := _maker(branch, known))]
    if not makers:
        return within_single if is_single else None
    has_arrays = any(kind == "array" for kind, _ in makers)
    own = {of_branch for _, of_branch in makers}
    of_times = {datetime.date: _of_date, datetime.datetime: _of_date} if _of_date in own else {}
    if _of_moment in own:
        of_times[datetime.datetime] = _of_moment

    def make(value: Any) -> Any:
        kinds: tuple[str, ...] = ("record",)
        if isinstance(value, dict):
            kinds = ("record", "map")
        elif not isinstance(value, (Row, list, tuple)):
            of_time = of_times.get(type(value))
            return of_time(value) if of_time is not None else within_single(value) if is_single else value
        elif has_arrays and not isinstance(value, Row) and not hasattr(value, "_fields"):
            kinds = ("array",)
        fitting = [of_branch for kind, of_branch in makers if kind in kinds]
        # Of several, fastavro finds the branch by the names of the fields.
        return fitting[0](value) if len(fitting) == 1 else _by_names(value)

    return make


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
