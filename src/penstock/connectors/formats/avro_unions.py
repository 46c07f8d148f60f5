"""Convert values of unions for fastavro, and name the branch where fastavro would choose another one or cut the value.

fastavro chooses the first branch that a value fits: any number fits a float, a datetime a date, bytes an array of ints.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from numbers import Integral
from typing import Any, NamedTuple

from penstock.common.types import Row
from penstock.common.types.whole_numbers import whole_number
from penstock.connectors.formats.avro_singles import BASES, INT_MAX, INT_MIN, LOGICAL, PRIMITIVE, TIMES, Make

_TEXTS = (str, bytes, bytearray)


class RecordBranch(NamedTuple):
    """A record by its full name, with the names of its fields and the converter of its values."""

    name: str
    fields: frozenset[str]
    make: Make


class Branches(NamedTuple):
    """The branches of a union and their converters. `of_array`, `of_map`: None if there is no such branch."""

    of_number: Make
    times: list[tuple[type, str, Make]]
    """By class, datetimes first, with the name of the type that fastavro writes."""
    records: list[RecordBranch]
    of_array: Make | None
    of_map: Make | None
    has_bytes: bool
    plain: frozenset[str]
    """Integer branches without a logical type."""
    fixed: dict[int, str]
    """The full names of fixed branches, by size."""


def union_maker(branches: list[Any], records: list[RecordBranch], of_array: Make | None, of_map: Make | None) -> Make:
    """Return the converter of values of a union. `branches`: as fastavro parses them."""
    parts = Branches(
        of_number=_of_numbers(branches),
        times=_of_times(branches),
        records=records,
        of_array=of_array,
        of_map=of_map,
        has_bytes="bytes" in branches,
        plain=frozenset(branch for branch in branches if branch in ("int", "long")),
        fixed={b["size"]: b["name"] for b in branches if isinstance(b, dict) and b["type"] == "fixed"},
    )

    of_text = _of_texts(branches)

    def make(value: Any) -> Any:
        if value is None:
            return value
        if isinstance(value, str):
            return value if of_text is None else of_text(value)
        if isinstance(value, (float, int)):
            return parts.of_number(value)
        if isinstance(value, (bytes, bytearray)):
            return value if parts.of_array is None else _bytes_of(parts, value)
        if isinstance(value, (datetime.date, datetime.time)):
            return _time_of(parts, value)
        if isinstance(value, (Row, Mapping)) or hasattr(value, "_fields"):
            return _record_of(parts, value)
        if isinstance(value, Integral):
            return parts.of_number(value)
        if hasattr(value, "__iter__"):
            return _items_of(parts, value)
        return value

    return make


def _bytes_of(parts: Branches, value: Any) -> Any:
    """Name the branch of bytes in a union with an array, as whose numbers fastavro would write them."""
    name = "bytes" if parts.has_bytes else parts.fixed.get(len(value))
    if name is None:
        raise ValueError(f"{value!r:.200} does not fit any branch of the union")
    return name, value


def _time_of(parts: Branches, value: Any) -> Any:
    fitting = [(name, make) for kind, name, make in parts.times if isinstance(value, kind)]
    if not fitting:
        return value
    name, make = fitting[0]
    # A datetime is also a date: name the branch if several types fit. fastavro uses the first branch of a name.
    return (name, make(value)) if len({name for name, _ in fitting}) > 1 and name not in parts.plain else make(value)


def _record_of(parts: Branches, value: Any) -> Any:
    names = _names_of(value)
    if names is None:
        of_length = [record for record in parts.records if len(record.fields) == len(value)]
        if len(of_length) == 1:
            return _as_record(parts, of_length[0], value)
        return parts.records[0].make(value) if len(parts.records) == 1 else to_plain(value)
    fitting = sorted(
        (record for record in parts.records if record.fields >= names), key=lambda record: len(record.fields)
    )
    is_map = isinstance(value, Mapping) and parts.of_map is not None
    if fitting and (not is_map or fitting[0].fields == names):
        return _as_record(parts, fitting[0], value)
    if is_map:
        assert parts.of_map is not None
        return parts.of_map(value)
    return parts.records[0].make(value) if len(parts.records) == 1 else to_plain(value)


def _as_record(parts: Branches, record: RecordBranch, value: Any) -> Any:
    made = record.make(value)
    return made if len(parts.records) == 1 and parts.of_map is None else (record.name, made)


def _names_of(value: Any) -> frozenset[str] | None:
    """Return the names of the value's fields, or None if its values have positions only."""
    if isinstance(value, Mapping):
        return frozenset(value)
    names = value._fields
    return None if names is None or is_unnamed(names) else frozenset(names)


def is_unnamed(names: tuple[str, ...]) -> bool:
    """Return whether these names are the generated ones of fields without names."""
    return names == tuple(f"f{position}" for position in range(len(names)))


def _items_of(parts: Branches, value: Any) -> Any:
    if parts.of_array is not None:
        return parts.of_array(value)
    of_length = [record for record in parts.records if hasattr(value, "__len__") and len(record.fields) == len(value)]
    if len(of_length) == 1:
        return _as_record(parts, of_length[0], value)
    return parts.records[0].make(value) if len(parts.records) == 1 else to_plain(value)


def _of_numbers(branches: list[Any]) -> Make:
    # If both are branches, fastavro chooses the double.
    of_float = next((PRIMITIVE[kind] for kind in ("double", "float") if kind in branches), None)
    integers = [branch for branch in branches if branch in ("int", "long")]
    named = {kind for kind in integers if _is_first(kind, branches)}
    is_plain = of_float is None and not any(isinstance(branch, dict) for branch in branches)

    def make(value: Any) -> Any:
        if isinstance(value, bool) or not (of_float or integers):
            return value
        if of_float is not None and (isinstance(value, float) or not integers):
            return of_float(value)
        number = whole_number(value)
        if is_plain:
            return number
        wide = integers[0] == "int" and not INT_MIN <= number <= INT_MAX
        kind = integers[-1 if wide else 0]
        if kind in named:
            return kind, number
        return number if of_float is None else of_float(number)

    return make


def _is_first(kind: str, branches: list[Any]) -> bool:
    """Return whether a plain branch precedes all others of that type: fastavro uses the first of a name."""
    return bool(next(branch for branch in branches if _without_type(branch) == kind) == kind)


def _of_texts(branches: list[Any]) -> Make | None:
    """Return the converter of a union whose texts are written as UUIDs, or None if any text is valid."""
    texts = [branch for branch in branches if _without_type(branch) in ("string", "enum")]
    is_uuid = bool(texts) and isinstance(texts[0], dict) and texts[0].get("logicalType") == "uuid"
    return LOGICAL["uuid"] if is_uuid else None


def _without_type(branch: Any) -> Any:
    return branch["type"] if isinstance(branch, dict) else branch


def _of_times(branches: list[Any]) -> list[tuple[type, str, Make]]:
    found = [
        (TIMES[branch["logicalType"]], str(branch["type"]), LOGICAL[branch["logicalType"]])
        for branch in branches
        if isinstance(branch, dict) and BASES.get(branch.get("logicalType", "")) == branch["type"] != "string"
    ]
    return sorted(found, key=lambda one: one[0] is datetime.date)


def to_plain(value: Any) -> Any:
    """Convert a value without a schema: a value with field names to a dict, any other to a list."""
    if isinstance(value, Row):
        value = list(value) if value._fields is None else value.as_dict()
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    return [to_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def of_items(of_item: Make | None) -> Make:
    """Return the converter of an array. It raises ValueError for a text, bytes or a map, which fastavro would split."""

    def make(value: Any) -> Any:
        if isinstance(value, (*_TEXTS, Mapping)):
            raise ValueError(f"{value!r:.200} is not an array")
        if not hasattr(value, "__iter__"):
            return value
        return list(value) if of_item is None else [of_item(item) for item in value]

    return make


def of_entries(of_entry: Make | None) -> Make:
    """Return the converter of a map."""

    def make(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {key: entry if of_entry is None else of_entry(entry) for key, entry in value.items()}

    return make
