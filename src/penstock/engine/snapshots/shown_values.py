"""Format values of state: as a line for users, as JSON for programs. Decode those that tasks have sent."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import io
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.api.windows.window import TimeWindow
from penstock.common.types import Row
from penstock.engine.runtime.task.context import shortened
from penstock.engine.runtime.task.events import Opaque
from penstock.engine.snapshots.missing_classes import MissingObject, classes_found, missing_object
from penstock.engine.state.unpickling import StateUnpickler

_DEPTH_MAX = 50


def line_of(row: tuple[Any, ...]) -> str:
    """Format a row of a state with repr(); long parts are shortened in the middle."""
    return "  ".join(shortened(part).replace("\n", " ") for part in row)


def json_of(value: Any, depth: int = 0) -> Any:
    """Convert a value to JSON types. Values without a JSON form are represented by their fields, or by repr().

    Objects with fields become dicts with the class name under "class"; dicts with keys that are not str become lists of
    pairs; bytes are base64.
    """
    if value is None or (isinstance(value, (bool, str)) and not isinstance(value, enum.Enum)):
        return value
    if type(value) in (int, float):
        return value if value == value and value not in (float("inf"), float("-inf")) else repr(value)
    if depth > _DEPTH_MAX:
        return shortened(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    fields = fields_of(value)
    if fields is not None:
        return {name: json_of(field, depth + 1) for name, field in fields.items()}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: json_of(one, depth + 1) for key, one in value.items()}
        return [[json_of(key, depth + 1), json_of(one, depth + 1)] for key, one in value.items()]
    if isinstance(value, (list, tuple, set, frozenset, Row)):
        return [json_of(one, depth + 1) for one in value]
    return shortened(value)


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the fields of an object with named fields, else None."""
    kind = type(value).__name__
    if isinstance(value, MissingObject):
        more = {"arguments": list(value.arguments)} if value.arguments else {}
        items = {"items": value.items} if value.items else {}
        return {"class": type(value).name, **more, **value.fields, **items}
    if isinstance(value, Row):
        return value.as_dict() if value._fields is not None else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"class": kind, **{field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}}
    names = getattr(value, "_fields", None)
    if isinstance(value, tuple) and names is not None:
        return {"class": kind, **dict(zip(names, value, strict=True))}
    return None


# Exact JSON, from which values can be restored without pickles, since a client must not unpickle received data.
#
# JSON's own types are unchanged. A list is {"list": [...]}, and each other kind is an object whose one field is its
# name. Objects of users' classes are restored as MissingObject with the name of the class and the fields.

_TEXTS: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "bytes": (bytes, lambda value: base64.b64encode(value).decode(), base64.b64decode),
    "datetime": (datetime.datetime, datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    "date": (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "time": (datetime.time, datetime.time.isoformat, datetime.time.fromisoformat),
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "uuid": (uuid.UUID, str, uuid.UUID),
    "float": (float, repr, float),
    "int": (int, str, int),
}
_COLLECTIONS: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_INT_MAX = 1 << 53
"""Larger integers lose digits in JSON readers that use doubles."""


def exact_of(value: Any) -> Any:
    """Return the exact JSON of a value."""
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if (kind is int and abs(value) < _INT_MAX) or (kind is float and value - value == 0):
        return value
    for name, (type_, write, _) in _TEXTS.items():
        if kind is type_:
            return {name: write(value)}
    for name, type_ in _COLLECTIONS.items():
        if kind is type_:
            return {name: [exact_of(one) for one in value]}
    if isinstance(value, dict):
        return {"dict": [[exact_of(key), exact_of(one)] for key, one in value.items()]}
    if isinstance(value, Row):
        return {"row": [exact_of(one) for one in value], "names": value._fields}
    if kind is TimeWindow:
        return {"window": [value.start, value.end]}
    if isinstance(value, list):
        # A ListKey, the class of lists that are keys.
        return exact_of(list(value))
    fields = fields_of(value)
    if fields is None:
        return {"object": kind.__qualname__, "text": json_of(value)}
    return {"object": fields.pop("class", kind.__qualname__), "fields": {n: exact_of(one) for n, one in fields.items()}}


def value_of(exact: Any) -> Any:
    """Return the value of exact JSON. Raises ValueError for JSON that is not a result of `exact_of`."""
    if not isinstance(exact, dict):
        return exact
    name = next(iter(exact), "")
    content: Any = exact.get(name)
    if name in _TEXTS:
        return _TEXTS[name][2](content)
    if name in _COLLECTIONS:
        return _COLLECTIONS[name](map(value_of, content))
    if name == "dict":
        return {value_of(key): value_of(one) for key, one in content}
    if name == "row":
        row = Row(*map(value_of, content))
        if exact["names"] is not None:
            row.set_field_names(exact["names"])
        return row
    if name == "window":
        return TimeWindow(*content)
    if name == "object":
        fields = {field: value_of(one) for field, one in exact.get("fields", {}).items()}
        return missing_object(content, fields if "fields" in exact else {"text": exact["text"]})
    raise ValueError(f"expected exact JSON of a value, got {exact}")


def live_rows(entries: Iterable[Opaque]) -> list[tuple[Any, ...]]:
    """Return all rows, with MissingObjects for objects of classes that cannot be imported. Raises errors of pickle."""
    with classes_found(allow_missing=True):
        return [row for entry in entries for row in StateUnpickler(io.BytesIO(entry.to_bytes())).load_complete()]
