"""Default values of fields, converted from the schema's JSON to values of their types. fastavro returns the JSON.

Source: Avro's specification, "Complex Types", table of field default values, and "Schema Resolution".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.connectors.formats.conversion import NOT_FINITE

RECORDS = ("record", "error")
_NAMED = (*RECORDS, "enum", "fixed")


def named_types(schema: Any) -> dict[str, Any]:
    """Return the records, enums and fixed types of a schema that fastavro has parsed, by their full names."""
    found = dict(schema.get("__named_schemas", ())) if isinstance(schema, dict) else {}
    return found | {part["name"]: part for part in _parts(schema) if part["type"] in _NAMED}


def default_of(field: Any, named: dict[str, Any], logical_readers: Any) -> Any:
    """Return the default of a field that has one. Raise ValueError for one that is not of the field's type.

    `logical_readers`: fastavro's functions that make values of logical types.
    """
    try:
        return _Defaults(named, logical_readers).value(field["type"], field["default"])
    except ValueError as error:
        raise ValueError(f"the default of field {field['name']!r}: {error}") from None


def with_default_values(schema: Any, logical_readers: Any) -> bool:
    """Replace the JSON of all defaults by values. Return whether some are lists or dicts.

    Raise ValueError for a default that is not of its field's type.
    """
    named = named_types(schema)
    fields = [field for record in _records(schema, named) for field in record["fields"] if "default" in field]
    # Compute all before the first replacement: the default of a record is made from those of its fields.
    values = [default_of(field, named, logical_readers) for field in fields]
    for field, value in zip(fields, values, strict=True):
        field["default"] = value
    return any(isinstance(value, (list, dict)) for value in values)


def unshared(value: Any) -> Any:
    """Return a copy of a value with its own lists and dicts: all records share those of defaults."""
    if isinstance(value, dict):
        return {key: unshared(item) for key, item in value.items()}
    return [unshared(item) for item in value] if isinstance(value, list) else value


def _parts(schema: Any) -> Iterator[Any]:
    """Yield each type of a schema that is a dict, on all levels."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _parts(branch)
    elif isinstance(schema, dict):
        yield schema
        fields = [field["type"] for field in schema.get("fields", ())]
        for part in (schema["type"], schema.get("items"), schema.get("values"), *fields):
            yield from _parts(part)


def _records(schema: Any, named: dict[str, Any]) -> list[Any]:
    """Return each record once: fastavro repeats the outermost one, with the same fields."""
    records = [part for one in (schema, *named.values()) for part in _parts(one) if part["type"] in RECORDS]
    return list({id(record["fields"]): record for record in records}.values())


class _Defaults:
    def __init__(self, named: dict[str, Any], logical_readers: Any) -> None:
        self._named = named
        self._logical_readers = logical_readers

    def value(self, kind: Any, json: Any) -> Any:
        """Return the value of this JSON as a type. In a union, use the first branch that has such a value."""
        if isinstance(kind, list):
            for branch in kind:
                try:
                    return self.value(branch, json)
                except ValueError:
                    continue
            raise _no_default(json, kind)
        schema = self._named.get(kind, kind) if isinstance(kind, str) else kind
        base = schema["type"] if isinstance(schema, dict) else schema
        if not isinstance(base, str):
            return self.value(base, json)
        raw = self._nested(schema, base, json) if isinstance(schema, dict) else _SAME
        if raw is _SAME:
            raw = _single(base, json)
        logical = schema.get("logicalType") if isinstance(schema, dict) else None
        read = self._logical_readers.get(f"{base}-{logical}")
        return raw if read is None else read(raw, schema, None)

    def _nested(self, schema: Any, base: str, json: Any) -> Any:
        """Return the value, or `_SAME` for a type that is neither nested nor named."""
        if base in RECORDS and isinstance(json, dict):
            return {field["name"]: self._field(field, json) for field in schema["fields"]}
        if base == "array" and isinstance(json, list):
            return [self.value(schema["items"], item) for item in json]
        if base == "map" and isinstance(json, dict):
            return {key: self.value(schema["values"], item) for key, item in json.items()}
        if base == "enum" and json in schema["symbols"]:
            return json
        if base == "fixed" and isinstance(json, str) and len(json) == schema["size"]:
            return _bytes(json)
        if base in (*RECORDS, "array", "map", "enum", "fixed"):
            raise _no_default(json, schema)
        return _SAME

    def _field(self, field: Any, json: dict[str, Any]) -> Any:
        if field["name"] not in json and "default" not in field:
            raise ValueError(f"{json!r:.80} lacks the field {field['name']!r}")
        return self.value(field["type"], json.get(field["name"], field.get("default")))


_SAME = object()
_SINGLE: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "string": (str,),
    "bytes": (str,),
}


def _single(base: str, json: Any) -> Any:
    if base in ("float", "double") and isinstance(json, str) and json in NOT_FINITE:
        return NOT_FINITE[json]
    is_of_type = isinstance(json, _SINGLE.get(base, ())) and (base == "boolean" or not isinstance(json, bool))
    if not is_of_type:
        raise _no_default(json, base)
    if base in ("float", "double"):
        return float(json)
    return _bytes(json) if base == "bytes" else json


def _bytes(json: str) -> bytes:
    # Each character is a byte: "\\u00ff" is 255.
    return json.encode("iso-8859-1")


def _no_default(json: Any, kind: Any) -> ValueError:
    return ValueError(f"{json!r:.80} is not a value of the type {kind!r:.80}")
