"""Formats values of state: as a line for people, as JSON for programs."""

from __future__ import annotations

import base64
import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from penstock.common.types import Row
from penstock.engine.runtime.task.context import shortened
from penstock.engine.snapshots.missing_classes import MissingObject

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
