"""Avro schemas, and access to fastavro. Source: Flink docs, "Avro format"."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from penstock.common.doors.extras import AVRO
from penstock.common.errors import ProgramError
from penstock.common.types.basic_types import TypeInformation
from penstock.connectors.formats.avro_defaults import with_default_values
from penstock.connectors.formats.avro_singles import Make
from penstock.connectors.formats.avro_values import maker_of


@cache
def fastavro() -> Any:
    """Return the package. Raise ProgramError if it is not installed."""
    try:
        import fastavro as package
        import fastavro.schema
    except ImportError:
        raise ProgramError(f"Avro needs fastavro, which is not installed: pip install '{AVRO}'") from None
    return package


class ReaderSchema(NamedTuple):
    """A parsed schema whose defaults are values. `shares_defaults`: records share defaults that are lists or dicts."""

    schema: Any
    shares_defaults: bool


class AvroSchema:
    """An Avro schema. Made by `parse_string` or `parse_file`; `str()` is its JSON."""

    def __init__(self, definition: Any) -> None:
        self.definition = definition
        self._parsed: Any = None
        self._make: Make | None = None
        self._reading: ReaderSchema | None = None

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Return the schema in this JSON. Raise ValueError if it is not a schema."""
        try:
            schema = AvroSchema(json.loads(json_schema))
        except ValueError as error:
            raise ValueError(f"an Avro schema must be JSON, got {json_schema!r:.100}: {error}") from None
        schema.parsed()
        return schema

    @staticmethod
    def parse_file(file_path: str | os.PathLike[str]) -> AvroSchema:
        """Return the schema in this local file. Raise OSError if it cannot be read, ValueError for invalid content."""
        return AvroSchema.parse_string(Path(file_path).read_text(encoding="utf-8"))

    def parsed(self) -> Any:
        """Return the schema as fastavro parses it. Raise ValueError if it is invalid."""
        if self._parsed is None:
            package = fastavro()
            try:
                self._parsed = package.parse_schema(self.definition)
            except (package.schema.SchemaParseException, package.schema.UnknownType, KeyError, TypeError) as error:
                raise ValueError(f"invalid Avro schema: {error!r}: {self!s:.200}") from None
            # fastavro accepts such a schema, and writes one of the values twice.
            for record, name in _fields_twice(self.definition):
                raise ValueError(f"invalid Avro schema: record {record} has two fields {name!r}: {self!s:.200}")
        return self._parsed

    def reader_schema(self) -> ReaderSchema:
        """Return the schema that fastavro needs to read messages of another schema.

        Raise ValueError for a default that is not of its field's type.
        """
        if self._reading is None:
            schema = copy.deepcopy(self.parsed())
            try:
                has_parts = with_default_values(schema, fastavro().read.LOGICAL_READERS)
            except ValueError as error:
                raise ValueError(f"invalid Avro schema: {error}: {self!s:.200}") from None
            self._reading = ReaderSchema(schema, has_parts)
        return self._reading

    def to_writable(self, value: Any) -> Any:
        """Return `value` as fastavro writes it by this schema. Raise ValueError for a record of another length."""
        if self._make is None:
            self._make = maker_of(self.parsed(), fastavro().read.LOGICAL_READERS)
        return self._make(value)

    def __str__(self) -> str:
        return json.dumps(self.definition)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSchema) and self.definition == other.definition

    def __hash__(self) -> int:
        return hash(str(self))

    def __getstate__(self) -> dict[str, Any]:
        return {"definition": self.definition, "_parsed": None, "_make": None, "_reading": None}


class GenericRecordAvroTypeInfo(TypeInformation):
    """The type of records of an Avro schema: dicts."""

    applies = False

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = schema

    def _parts(self) -> tuple[Any, ...]:
        return (self.schema,)


def _fields_twice(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield the record and the name of each duplicate field, on all levels."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _fields_twice(branch)
    if not isinstance(schema, dict):
        return
    names = [field["name"] for field in schema.get("fields", ())]
    yield from ((schema["name"], name) for position, name in enumerate(names) if name in names[:position])
    for part in (schema["type"], schema.get("items"), schema.get("values"), *schema.get("fields", ())):
        yield from _fields_twice(part)
