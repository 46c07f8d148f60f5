"""Records in Avro's binary encoding as batches of columns, without a Python value for each.

`DatumColumns` reads messages, of which each is a record, and blocks of files, where records follow each other. What it
does not read exactly as fastavro does, it leaves to the reader of single records: then it returns None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.connectors.formats.avro_arrays import fields_reader
from penstock.connectors.formats.avro_bytes import AvroBytes, Positions, UnusualError
from penstock.connectors.formats.avro_plain import PlainTypes, keeps_values
from penstock.connectors.formats.avro_schema import ReaderSchema
from penstock.connectors.formats.avro_walk import RecordWalk


class DatumColumns:
    """Reads batches of `columns`, whose values are those of the records that fastavro reads.

    `writer`: the schema of the records as fastavro parses it; with `reader`, what `with_logical_types_of` returns.
    `reader`: the schema to which they are resolved; None: they have that of their writer. Raise ValueError if columns
    cannot be made of these records by this way.
    """

    def __init__(self, columns: RecordColumns, writer: Any, reader: ReaderSchema | None = None) -> None:
        self._columns = columns
        self._types = PlainTypes(writer)
        self._defaults = {} if reader is None else _defaults(self._types, reader)
        self._walk: RecordWalk | None = None
        kinds = {field.name: field.type for field in columns.schema if field.name not in self._defaults}
        fields = fields_reader(self._types, writer, kinds)
        known = set(columns.names) if reader is None else {field["name"] for field in reader.schema["fields"]}
        if fields is None or not keeps_values(columns) or not known >= set(columns.names):
            raise ValueError(f"no columns {', '.join(map(str, columns.schema))} of {writer!r:.200}")
        self._fields = fields

    def batch_of_messages(self, messages: Sequence[bytes]) -> pyarrow.RecordBatch | None:
        """Return the columns of messages, each of which is a record; None if the reader of records must decide."""
        if not messages:
            return self._columns.batch_of([])
        ends = numpy.cumsum(numpy.fromiter(map(len, messages), numpy.int64, len(messages)))
        starts = numpy.concatenate(([0], ends[:-1]))
        try:
            return self._batch(AvroBytes(b"".join(messages)), starts, ends)
        except (UnusualError, pyarrow.ArrowException):
            return None

    def batch_of_blocks(self, blocks: Sequence[tuple[int, bytes]]) -> pyarrow.RecordBatch | None:
        """Return the columns of blocks, each a number of records and their bytes; None as `batch_of_messages`."""
        if self._walk is None:
            self._walk = RecordWalk(self._types)
        joined = b"".join([data for _, data in blocks])
        try:
            data = AvroBytes(joined)
            starts = self._walk.starts(joined, [(count, len(block)) for count, block in blocks])
            if starts is None:
                return None
            return self._batch(data, starts, numpy.append(starts[1:], len(joined)))
        except (UnusualError, pyarrow.ArrowException):
            return None

    def _batch(self, data: AvroBytes, starts: Positions, ends: Positions) -> pyarrow.RecordBatch | None:
        found, after = self._fields(data, starts)
        if not numpy.array_equal(after, ends):
            return None
        for name, default in self._defaults.items():
            if name in self._columns.names:
                found[name] = self._columns.only([name]).batch_of([{name: default}]).column(0).take([0] * len(starts))
        batch = pyarrow.RecordBatch.from_arrays(
            [found[name] for name in self._columns.names], schema=self._columns.schema
        )
        if any(not field.nullable and batch.column(field.name).null_count for field in self._columns.schema):
            return None
        return batch


def _defaults(types: PlainTypes, reader: ReaderSchema) -> dict[str, Any]:
    """Return the values of those fields of the reader that the writer lacks.

    Raise ValueError if the others are not the same in both, or wider: those are resolved record by record.
    """
    wanted = PlainTypes(reader.schema)
    if wanted.record["name"] != types.record["name"]:
        raise ValueError(f"expected the record {wanted.record['name']}, got {types.record['name']}")
    written = {field["name"]: field["type"] for field in types.record["fields"]}
    defaults = {}
    for field in wanted.record["fields"]:
        name = field["name"]
        if "aliases" in field:
            raise ValueError(f"the field {name} has aliases")
        if name not in written:
            if "default" not in field:
                raise ValueError(f"the field {name} is missing")
            defaults[name] = field["default"]
        elif _bare(types, written[name]) != (bare := _bare(wanted, field["type"])) and (
            (_bare(types, written[name]), bare) != ("int", "long")
        ):
            raise ValueError(f"the field {name} has another type")
    return defaults


def _bare(types: PlainTypes, schema: Any) -> Any:
    """Return what determines the encoding of a type, and its values but for logical types, which are the writer's."""
    if isinstance(schema, list):
        return [_bare(types, branch) for branch in schema]
    definition, base = types.definition(schema)
    if base == "record":
        return definition["name"], [(field["name"], _bare(types, field["type"])) for field in definition["fields"]]
    if base in ("enum", "fixed"):
        return definition["name"], definition.get("symbols"), definition.get("size")
    return base
