"""Schemas of Avro, and the package that knows Avro. Source: Flink docs, "Avro format"."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from penstock.common.basic_types import TypeInformation
from penstock.common.errors import ProgramError
from penstock.common.extras import AVRO
from penstock.common.types import Row, row_factory
from penstock.formats.avro_values import Make, maker_of
from penstock.formats.row_values import values_getter


@cache
def fastavro() -> Any:
    """The package. Raises ProgramError if it is not installed."""
    try:
        import fastavro as package
        import fastavro.schema
    except ImportError:
        raise ProgramError(f"Avro needs fastavro, which is not installed: pip install '{AVRO}'") from None
    return package


class AvroSchema:
    """A schema of Avro. Made by `parse_string` or `parse_file`; `str()` is its JSON."""

    def __init__(self, definition: Any) -> None:
        self.definition = definition
        self._parsed: Any = None
        self._make: Make | None = None

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """The schema in this JSON. Raises ValueError if it is none."""
        try:
            schema = AvroSchema(json.loads(json_schema))
        except ValueError as error:
            raise ValueError(f"an Avro schema must be JSON, got {json_schema!r:.100}: {error}") from None
        schema.parsed()
        return schema

    @staticmethod
    def parse_file(file_path: str | os.PathLike[str]) -> AvroSchema:
        """The schema in this local file. Raises OSError if it can't be read, ValueError if it holds none."""
        return AvroSchema.parse_string(Path(file_path).read_text(encoding="utf-8"))

    def parsed(self) -> Any:
        """What fastavro makes of it. Raises ValueError if it is no schema."""
        if self._parsed is None:
            package = fastavro()
            try:
                self._parsed = package.parse_schema(self.definition)
            except (package.schema.SchemaParseException, package.schema.UnknownType, KeyError, TypeError) as error:
                raise ValueError(f"this is no Avro schema: {error!r}: {self!s:.200}") from None
        return self._parsed

    def as_written(self, value: Any) -> Any:
        """`value` as fastavro writes it by this schema. Raises ValueError for a record of another length."""
        if self._make is None:
            self._make = maker_of(self.parsed())
        return self._make(value)

    def __str__(self) -> str:
        return json.dumps(self.definition)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSchema) and self.definition == other.definition

    def __hash__(self) -> int:
        return hash(str(self))

    def __getstate__(self) -> dict[str, Any]:
        return {"definition": self.definition, "_parsed": None, "_make": None}


class GenericRecordAvroTypeInfo(TypeInformation):
    """The type of records of an Avro schema: dicts."""

    applies = False

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = schema

    def _parts(self) -> tuple[Any, ...]:
        return (self.schema,)


Reader = Callable[[Any], Any]


def row_reader(schema: Any) -> Reader | None:
    """From what fastavro reads by a schema to Rows, on all levels; None if there is no record in it."""
    return _row_reader(schema, {})


def _row_reader(schema: Any, known: dict[str, Reader | None]) -> Reader | None:
    if isinstance(schema, str):
        return known.get(schema)
    if isinstance(schema, list):
        return _of_union(schema, known)
    kind = schema["type"]
    if kind == "record":
        return _of_record(schema, known)
    if kind in ("array", "map"):
        of_item = _row_reader(schema["items" if kind == "array" else "values"], known)
        if of_item is None:
            return None
        read = of_item
        if kind == "array":
            return lambda items: [read(item) for item in items]
        return lambda entries: {key: read(item) for key, item in entries.items()}
    return None if isinstance(kind, str) else _row_reader(kind, known)


def _of_union(branches: list[Any], known: dict[str, Reader | None]) -> Reader | None:
    readers = [reader for branch in branches if (reader := _row_reader(branch, known)) is not None]
    if len(readers) > 1:
        raise ValueError("Avro: a union of several records, arrays or maps of records has no type of rows")
    if not readers:
        return None
    (read,) = readers
    return lambda value: read(value) if isinstance(value, (dict, list)) else value


def _of_record(schema: Any, known: dict[str, Reader | None]) -> Reader:
    names = [field["name"] for field in schema["fields"]]
    # A record may contain itself.
    known[schema["name"]] = lambda value: read(value)
    found = enumerate(_row_reader(field["type"], known) for field in schema["fields"])
    readers = [(index, of_field) for index, of_field in found if of_field is not None]
    get, make = values_getter(names), row_factory(names)

    def read_fields(record: dict[str, Any]) -> Row:
        values = list(get(record))
        for index, of_field in readers:
            if values[index] is not None:
                values[index] = of_field(values[index])
        return make(values)

    # By its name it may be found again, so it has one in either case.
    read: Reader = read_fields if readers else lambda record: make(get(record))
    return read
