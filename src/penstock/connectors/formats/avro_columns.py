"""The columns of an Avro schema, for files that store records by columns."""

from __future__ import annotations

from typing import Any

import pyarrow

from penstock.connectors.formats.avro_schema import AvroSchema

_SINGLE = {
    "boolean": pyarrow.bool_(),
    "int": pyarrow.int32(),
    "long": pyarrow.int64(),
    "float": pyarrow.float32(),
    "double": pyarrow.float64(),
    "bytes": pyarrow.binary(),
    "string": pyarrow.string(),
    "enum": pyarrow.string(),
}
_LOGICAL = {
    "date": pyarrow.date32(),
    "time-millis": pyarrow.time32("ms"),
    "time-micros": pyarrow.time64("us"),
    "timestamp-millis": pyarrow.timestamp("ms", "UTC"),
    "timestamp-micros": pyarrow.timestamp("us", "UTC"),
    "local-timestamp-millis": pyarrow.timestamp("ms"),
    "local-timestamp-micros": pyarrow.timestamp("us"),
}


def columns_of(schema: AvroSchema) -> pyarrow.Schema:
    """Return a column for each field of a record. Raise ValueError for a schema that columns cannot have."""
    schema.parsed()
    definition = schema.definition
    if not isinstance(definition, dict) or definition.get("type") != "record":
        raise ValueError(f"the Avro schema must be a record, got {schema}")
    return pyarrow.schema(_fields(definition))


def _fields(record: Any) -> list[pyarrow.Field]:
    return [_field(field["name"], field["type"]) for field in record["fields"]]


def _field(name: str, kind: Any) -> pyarrow.Field:
    nullable = isinstance(kind, list) and "null" in kind
    if isinstance(kind, list):
        branches = [branch for branch in kind if branch != "null"]
        if len(branches) != 1:
            raise ValueError(f"field {name!r}: expected one type in addition to null, got {len(branches)}")
        (kind,) = branches
    return pyarrow.field(name, _type(name, kind), nullable)


def _type(name: str, kind: Any) -> pyarrow.DataType:
    if isinstance(kind, list):
        return _field(name, kind).type
    if isinstance(kind, str):
        if kind not in _SINGLE:
            raise ValueError(f"field {name!r}: the type {kind!r} is defined elsewhere: repeat the definition here")
        return _SINGLE[kind]
    logical, inner = kind.get("logicalType"), kind["type"]
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if logical == "decimal":
        return pyarrow.decimal128(kind["precision"], kind.get("scale", 0))
    if inner == "record":
        return pyarrow.struct(_fields(kind))
    if inner == "array":
        return pyarrow.list_(_type(name, kind["items"]))
    if inner == "map":
        return pyarrow.map_(pyarrow.string(), _type(name, kind["values"]))
    return pyarrow.binary(kind["size"]) if inner == "fixed" else _type(name, inner)
