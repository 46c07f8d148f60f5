"""Avro container files, read and written by fastavro block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

from penstock.common.serialization import BulkWriter, BulkWriterFactory
from penstock.common.types.type_variables import Record
from penstock.connectors.base.split_reader import Chunk
from penstock.connectors.files.formats.avro_blocks import AvroBlocks
from penstock.connectors.files.formats.format import BatchFormat
from penstock.connectors.files.formats.streams import check_all_skipped, reading_raw
from penstock.connectors.files.split import FileSplit, FoundFile
from penstock.connectors.formats.avro_schema import AvroSchema, GenericRecordAvroTypeInfo, fastavro

if TYPE_CHECKING:
    import pyarrow

    from penstock.common.columns.record_columns import RecordColumns
    from penstock.connectors.files.formats.avro_batches import AvroBatches
    from penstock.connectors.files.formats.avro_columns import AvroColumns

_BLOCK_BYTES = 16_000
_CODECS = ("null", "deflate", "bzip2", "xz", "snappy", "zstandard")


class AvroFormat(BatchFormat[Record]):
    """Read each record of Avro container files as a dict, or as a Row with field names.

    With a `schema`, records of the file are resolved to it by Avro's rules; otherwise they have the schema of the file.
    A file is one split. Values of logical types are Python's: date, time, datetime, Decimal, UUID. Codecs are those of
    `AvroWriterFactory`.
    """

    def __init__(self, schema: AvroSchema | None = None, *, as_row: bool = False) -> None:
        if schema is not None and not isinstance(schema, AvroSchema):
            raise TypeError(f"expected an AvroSchema, got {schema!r}")
        if schema is not None:
            # Raises ValueError for a default that is not of its field's type, here instead of in a worker.
            schema.reader_schema()
        self._schema = schema
        self._as_row = as_row

    def is_splittable(self, path: str) -> bool:
        """Return False."""
        return False

    def check(self, file: FoundFile) -> None:
        """Read the header and the first record, which show whether the file's records can be resolved to the schema."""
        with reading_raw(file.path) as stream:
            blocks = AvroBlocks(file.path, stream, self._schema)
            blocks.check()

    def read(self, split: FileSplit, skipped: Callable[[int], None]) -> Iterator[Chunk]:
        """See `FileFormat.read`. A position is a number of records to skip; blocks before it are not decoded."""
        done = 0
        with reading_raw(split.path) as stream:
            blocks, records_of = self._opened(split.path, stream)
            for block in blocks:
                first = max(0, split.skip - done)
                done += block.num_records
                if first >= block.num_records:
                    continue
                yield Chunk(
                    records_of(block)[first:],
                    FileSplit(path=split.path, start=split.start, end=split.end, offset=split.offset, skip=done),
                )
            check_all_skipped(split.path, split.skip - done)

    def _opened(self, path: str, stream: Any) -> tuple[AvroBlocks, Callable[[Any], list[Any]]]:
        """Return the blocks of a file, and the function that returns the records of a block."""
        blocks = AvroBlocks(path, stream, self._schema)
        to_row = blocks.make_rows() if self._as_row else None
        if to_row is None:
            return blocks, blocks.records
        return blocks, lambda block: list(map(to_row, blocks.records(block)))

    def on_columns(self, columns: RecordColumns) -> AvroColumns:
        """Return a format of batches."""
        from penstock.connectors.files.formats.avro_columns import AvroColumns

        return AvroColumns(self, self._opened, columns)

    def get_produced_type(self) -> Any:
        """Return the type of the given schema's records if they are dicts, else None."""
        return None if self._schema is None or self._as_row else GenericRecordAvroTypeInfo(self._schema)


class AvroWriterFactory(BulkWriterFactory):
    """Create writers of Avro container files. Records are dicts or Rows.

    `codec`: `null`, `deflate`, `bzip2`, `xz`, `snappy` or `zstandard`. Raise TypeError or ValueError for invalid
    arguments.
    """

    def __init__(self, schema: AvroSchema, *, codec: str = "null") -> None:
        if not isinstance(schema, AvroSchema):
            raise TypeError(f"expected an AvroSchema, such as AvroSchema.parse_string(text), got {schema!r}")
        if codec not in _CODECS:
            raise ValueError(f"codec must be one of {', '.join(_CODECS)}, got {codec!r}")
        # Raises ProgramError if the package is missing, here instead of in a worker.
        schema.parsed()
        self.schema = schema
        self.codec = codec

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether batches of these columns are written without their records."""
        from penstock.connectors.formats.avro_messages import can_encode

        return can_encode(self.schema.parsed(), columns)

    def create(self, stream: IO[bytes]) -> AvroWriter:
        """Create a writer to an empty file."""
        return AvroWriter(stream, self)


class AvroWriter(BulkWriter):
    """Write blocks of 16 kB, each buffered in memory."""

    def __init__(self, stream: IO[bytes], settings: AvroWriterFactory) -> None:
        fastavro()
        from fastavro.write import Writer

        self._schema = settings.schema
        self._writer: Any = Writer(stream, settings.schema.parsed(), codec=settings.codec, sync_interval=_BLOCK_BYTES)
        self._batches: AvroBatches | None = None
        """Writes the batches of columns, if there are any."""

    def add_element(self, element: Any) -> None:
        try:
            self._writer.write(self._schema.to_writable(element))
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise TypeError(f"{element!r:.200} is not a record of {self._schema}: {error!r}") from error

    def add_elements(self, elements: Sequence[Any] | pyarrow.RecordBatch) -> None:
        if not isinstance(elements, Sequence):
            if self._batches is None:
                from penstock.connectors.files.formats.avro_batches import AvroBatches

                self._batches = AvroBatches(self._writer, self._schema.parsed(), _BLOCK_BYTES)
            if self._batches.add(elements):
                return
            elements = self._batches.records(elements)
        for element in elements:
            self.add_element(element)

    def flush(self) -> None:
        """Write the buffered records as a block."""
        if self._batches is not None:
            self._batches.flush()
        self._writer.flush()

    def finish(self) -> None:
        self.flush()
