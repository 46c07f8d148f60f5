"""CSV files as described by a CsvSchema, with a header if the schema has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

from penstock.common.record_fields import fields_of
from penstock.common.serialization import BulkWriter, BulkWriterFactory, Encoder
from penstock.formats.csv_schema import ArrayConverter, CsvSchema


class CsvWriterFactory(BulkWriterFactory):
    """Creates writers of CSV files. Records are dicts, Rows, tuples, or objects with attributes.

    Settings of the schema that concern reading only (comments, a row to skip) are ignored. Raises ValueError if the
    schema has no columns.
    """

    def __init__(self, schema: CsvSchema) -> None:
        if not schema.columns:
            raise ValueError("the CsvSchema has no columns")
        options, dialect = schema.options, schema.dialect
        self.names = tuple(schema.columns)
        self.header = options.get("header", False)
        self.separators = {
            position: kind.separator
            for position, kind in enumerate(schema.columns.values())
            if isinstance(kind, ArrayConverter)
        }
        self.encoder = Encoder.csv_encoder(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote_char,
            escape_char=dialect.escape_char,
            null_value=options.get("null_value") or "",
        )

    def create(self, stream: IO[bytes]) -> CsvWriter:
        """Create a writer to an empty file."""
        return CsvWriter(stream, self)


class CsvWriter(BulkWriter):
    """Writes each chunk immediately."""

    def __init__(self, stream: IO[bytes], settings: CsvWriterFactory) -> None:
        self._stream = stream
        self._settings = settings
        if settings.header:
            stream.write(settings.encoder.encode(settings.names))

    def add_element(self, element: Any) -> None:
        self.add_elements([element])

    def add_elements(self, elements: Sequence[Any]) -> None:
        encode = self._settings.encoder.encode
        self._stream.write(b"".join([encode(self._fields(element)) for element in elements]))

    def flush(self) -> None:
        """Do nothing: no data is buffered here."""

    def finish(self) -> None:
        """Do nothing: CSV has no footer."""

    def _fields(self, record: Any) -> Sequence[Any]:
        fields = list(fields_of(record, self._settings.names))
        for position, separator in self._settings.separators.items():
            if fields[position] is not None:
                fields[position] = separator.join(map(str, fields[position]))
        return fields
