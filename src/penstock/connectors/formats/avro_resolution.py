"""Apply the reader's logical types to values of another schema: fastavro applies only the writer's.

The schema of the writer is changed to one with the same encoding and the logical types of the reader. A timestamp, time
of day or decimal keeps the unit and the scale of its writer, so that no value changes. Source: Avro's specification,
"Schema Resolution" and "Logical Types"; Java's ResolvingDecoder and GenericDatumReader.
"""

from __future__ import annotations

import copy
from typing import Any

from penstock.connectors.formats.avro_defaults import RECORDS, named_types
from penstock.connectors.formats.avro_singles import BASES

_PROMOTED = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}
_SAME_BYTES = {("int", "long"), ("string", "bytes"), ("bytes", "string")}
"""Pairs of types with the same encoding: a value written as the first can be read as the second."""
_NAMED = (*RECORDS, "enum", "fixed")
_FAMILIES = {name: name.removesuffix("-millis").removesuffix("-micros") for name in BASES} | {"decimal": "decimal"}
_MOMENTS = ("timestamp", "local-timestamp")


class LogicalTypeMismatchError(ValueError):
    """A value of the writer's logical type cannot have the reader's type."""


def with_logical_types_of(writer: Any, reader: Any) -> Any:
    """Return the writer's schema with the reader's logical types. Change parts of it in place.

    Both are as fastavro parses them. Raise LogicalTypeMismatchError, for example for a date that the reader wants as a
    timestamp.
    """
    return _Resolution(writer, reader).resolved(writer, reader)


class _Resolution:
    def __init__(self, writer: Any, reader: Any) -> None:
        self._writer = named_types(writer)
        self._reader = named_types(reader)
        self._done: dict[int, Any] = {}
        """By the fields of a record of the writer: the fields of the reader's record."""

    def resolved(self, writer: Any, reader: Any) -> Any:
        schema = self._writer.get(writer, writer) if isinstance(writer, str) else writer
        wanted = self._reader.get(reader, reader) if isinstance(reader, str) else reader
        if isinstance(schema, list):
            return [self.resolved(branch, wanted) for branch in schema]
        if isinstance(wanted, list):
            branch = next((branch for branch in wanted if self._matches(schema, branch)), None)
            return writer if branch is None else self.resolved(writer, branch)
        if not self._matches(schema, wanted):
            # fastavro refuses it when a value of this type occurs.
            return writer
        base = _type_of(schema)
        if base in RECORDS:
            return self._record(writer, schema, wanted)
        for part in ("items", "values"):
            if base == {"items": "array", "values": "map"}[part]:
                schema[part] = self.resolved(schema[part], wanted[part])
                return schema
        return writer if base == "enum" else _single(writer, schema, wanted)

    def _record(self, writer: Any, schema: Any, wanted: Any) -> Any:
        done = self._done.get(id(schema["fields"]))
        if done is not None and done is not wanted["fields"]:
            # The reader makes two records of one of the writer: each needs its own definition.
            writer = schema = copy.deepcopy(schema)
            done = None
        if done is None:
            self._done[id(schema["fields"])] = wanted["fields"]
            fields = {alias: field for field in wanted["fields"] for alias in field.get("aliases", ())}
            fields |= {field["name"]: field for field in wanted["fields"]}
            for field in schema["fields"]:
                if field["name"] in fields:
                    field["type"] = self.resolved(field["type"], fields[field["name"]]["type"])
        return writer

    def _matches(self, writer: Any, reader: Any) -> bool:
        """Return whether fastavro uses this branch of the reader for values of the writer's type."""
        writer = self._writer.get(writer, writer) if isinstance(writer, str) else writer
        reader = self._reader.get(reader, reader) if isinstance(reader, str) else reader
        if isinstance(writer, list) or isinstance(reader, list):
            return True
        kind, wanted = _type_of(writer), _type_of(reader)
        if kind in _NAMED and wanted in _NAMED:
            names = {reader["name"].rpartition(".")[2], *reader.get("aliases", ())}
            is_same_size = kind != "fixed" or writer["size"] == reader.get("size")
            return is_same_size and not names.isdisjoint((writer["name"], writer["name"].rpartition(".")[2]))
        if kind == wanted == "array":
            return self._matches(writer["items"], reader["items"])
        if kind == wanted == "map":
            return self._matches(writer["values"], reader["values"])
        return kind == wanted or wanted in _PROMOTED.get(kind, ())


def _type_of(schema: Any) -> Any:
    return schema["type"] if isinstance(schema, dict) else schema


def _single(writer: Any, schema: Any, wanted: Any) -> Any:
    """Resolve a type that has no parts."""
    base, logical = _type_of(schema), _logical(schema, wanted)
    written = logical.get("logicalType")
    if written != _attributes(schema).get("logicalType") and (base, _type_of(wanted)) in _SAME_BYTES:
        base = _type_of(wanted)
    if base == "fixed":
        for name in ("logicalType", "precision", "scale"):
            schema.pop(name, None)
        schema.update(logical)
        return writer
    return {"type": base, **logical} if logical else base


def _attributes(schema: Any) -> dict[str, Any]:
    names = ("logicalType", "precision", "scale")
    return {name: schema[name] for name in names if name in schema} if isinstance(schema, dict) else {}


def _logical(schema: Any, wanted: Any) -> dict[str, Any]:
    """Return how to read a value of `schema`: with its own unit and scale, and otherwise as `wanted`."""
    written, wanted_attributes = _attributes(schema), _attributes(wanted)
    if "logicalType" not in written or "logicalType" not in wanted_attributes or written == wanted_attributes:
        return wanted_attributes if "logicalType" in wanted_attributes else {}
    names = written["logicalType"], wanted_attributes["logicalType"]
    families = [_FAMILIES.get(name) for name in names]
    if None in families:
        return wanted_attributes
    if families[0] == families[1]:
        return written
    if set(families) <= set(_MOMENTS):
        return {"logicalType": f"{families[1]}-{names[0].rpartition('-')[2]}"}
    raise LogicalTypeMismatchError(f"a value of the logical type {names[0]} cannot be read as {names[1]}")
