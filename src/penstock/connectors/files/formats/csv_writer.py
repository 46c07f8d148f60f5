"""CSV files as described by a CsvSchema, with a header if the schema has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

from penstock.common.serialization import BulkWriter, BulkWriterFactory, Encoder, csv_form
from penstock.common.types.record_fields import fields_of
from penstock.connectors.formats.csv_schema import ArrayConverter, CsvSchema


class CsvWriterFactory(BulkWriterFactory):
    """Creates writers of CSV files. Records are dicts, Rows, tuples, or objects with attributes.

    What begins with # is quoted if the schema has comments. A row to skip, which concerns reading only, is ignored.
    Raises ValueError if the schema has no columns.
    """

    def __init__(self, schema: CsvSchema) -> None:
        if not schema.columns:
            raise ValueError("the CsvSchema has no columns")
        options, dialect = schema.options, schema.dialect
        self.dialect = dialect
        self.names = tuple(schema.columns)
        self.header = options.get("header", False)
        self.arrays = {
            position: kind for position, kind in enumerate(schema.columns.values()) if isinstance(kind, ArrayConverter)
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
        lines = [encode(self._fields(element)) for element in elements]
        if self._settings.dialect.comments:
            lines = [self._no_comment(line) if line.startswith(b"#") else line for line in lines]
        self._stream.write(b"".join(lines))

    def flush(self) -> None:
        """Do nothing: no data is buffered here."""

    def finish(self) -> None:
        """Do nothing: CSV has no footer."""

    def _fields(self, record: Any) -> Sequence[Any]:
        fields = list(fields_of(record, self._settings.names, has_all=False))
        for position, array in self._settings.arrays.items():
            if fields[position] is not None:
                fields[position] = array.text(fields[position], csv_form)
        return fields

    def _no_comment(self, line: bytes) -> bytes:
        """A record whose first field begins with #, so that it is not skipped when it is read."""
        dialect = self._settings.dialect
        if dialect.quote_char is not None:
            # What has to be quoted anyway begins with a quote: this field ends with the first delimiter.
            field, rest, quote = line[:-1], b"", dialect.quote_char.encode()
            if (end := field.find(dialect.delimiter.encode())) >= 0:
                field, rest = field[:end], field[end:]
            return quote + field + quote + rest + b"\n"
        if dialect.escape_char is not None:
            return dialect.escape_char.encode() + line
        raise ValueError(f"{line!r:.200} would be read as a comment: the CsvSchema has neither quotes nor an escape")
