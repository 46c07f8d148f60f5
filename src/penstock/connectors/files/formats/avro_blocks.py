"""The blocks of Avro container files, read by fastavro, with additional checks.

fastavro does not verify checksums of snappy, ignores bytes after the records of a block, and reports no error if a file
ends at the start of a block. Source: Avro's specification, "Object Container Files".
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.common.doors.extras import AVRO
from penstock.common.errors import ConfigurationError, SourceError
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.connectors.formats.avro_defaults import unshared
from penstock.connectors.formats.avro_resolution import LogicalTypeMismatchError, with_logical_types_of
from penstock.connectors.formats.avro_rows import RowReader
from penstock.connectors.formats.avro_schema import AvroSchema, ReaderSchema, fastavro

_BUFFER_BYTES = 128 * 1024
_SYNC_BYTES = 16
_CRC_BYTES = 4
_NOT_INSTALLED = "is supported but you need to install"
"""fastavro's message for a codec whose package is missing."""


class AvroBlocks:
    """Iterate over the blocks of a file; `records` decodes a block. Raise SourceError, which names the file."""

    def __init__(self, path: str, stream: Any, schema: AvroSchema | None) -> None:
        """`stream`: at its beginning. `schema`: of the returned records, None: the schema of the file."""
        self._path = path
        self._size = stream.size()
        # fastavro reads single bytes: without the buffer each would be a call of pyarrow, or a request to a store.
        self._stream = io.BufferedReader(stream, _BUFFER_BYTES)
        self._schema = schema
        self._reader_schema = None if schema is None else schema.reader_schema()
        self._end = 0
        """The end of the last block."""
        self._done = 0
        """The number of records in the blocks before."""
        self._open({})

    @property
    def writer_schema(self) -> Any:
        """The schema of the file as fastavro parses it, with the logical types of the given schema."""
        return self._writer

    @property
    def reader_schema(self) -> ReaderSchema | None:
        """The given schema as fastavro needs it, None: records have the schema of the file."""
        return self._reader_schema

    def make_rows(self) -> Callable[[Any], Any] | None:
        """Return the function that converts records to Rows, or None if that is not needed.

        Call it before reading blocks.
        """
        schema = self._writer if self._reader_schema is None else self._reader_schema.schema
        rows = RowReader(schema, is_resolved=self._reader_schema is not None)
        if rows.options:
            self._stream.seek(0)
            self._open(rows.options)
        return rows.read

    def check(self) -> None:
        """Decode the first record."""
        for block in self:
            with self._named(block.offset):
                next(iter(block), None)
            return

    def __iter__(self) -> Iterator[Any]:
        while True:
            with self._named(self._end or self._stream.tell()):
                block = next(self._blocks, None)
                if block is None:
                    break
                if block.num_records < 0:
                    raise ValueError(f"a block has {block.num_records} records")
                self._verify(block)
            self._end = block.offset + block.size
            block.writer_schema = self._writer
            block.records_before = self._done
            yield block
            self._done += block.num_records
        if self._end and self._end != self._size:
            raise SourceError(
                f"{self._path}: damaged after {self._done} records: {self._size - self._end} bytes after the last "
                f"block, which ends at byte {self._end}, are not a block"
            )

    def records(self, block: Any) -> list[Any]:
        """Return the records of a block."""
        values: list[Any] = []
        with self._named(block.offset, lambda: int(block.records_before) + len(values)):
            # An error leaves the records before it in the list.
            values.extend(block)
            if rest := block.bytes_.read():
                raise ValueError(f"a block has {len(rest)} bytes after its records")
        return unshared(values) if self._reader_schema is not None and self._reader_schema.shares_defaults else values

    def _open(self, options: dict[str, Any]) -> None:
        package, reader_schema = fastavro(), self._reader_schema
        if not self._size:
            raise SourceError(f"{self._path} is not an Avro file: it is empty")
        try:
            self._blocks = package.block_reader(self._stream, reader_schema and reader_schema.schema, **options)
            self._writer = self._blocks.writer_schema
            if reader_schema is not None:
                self._writer = with_logical_types_of(self._writer, reader_schema.schema)
        except LogicalTypeMismatchError as error:
            raise SourceError(f"cannot read the records of {self._path} as {self._schema}: {error}") from error
        except (*NOT_OF_A_VALUE, OSError):
            raise
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{self._path}: an entry of the header is not UTF-8: {error.object[:20]!r}. The header is damaged, or "
                "has binary metadata, which fastavro does not support"
            ) from error
        except RAISED as error:
            raise SourceError(f"{self._path} is not an Avro file: {error!r}") from error

    def _verify(self, block: Any) -> None:
        """Compare the data of a snappy block with the checksum that follows it."""
        if block.codec != "snappy":
            return
        self._stream.seek(block.offset + block.size - _SYNC_BYTES - _CRC_BYTES)
        stored = int.from_bytes(self._stream.read(_CRC_BYTES))
        self._stream.seek(block.offset + block.size)
        if stored != zlib.crc32(block.bytes_.getbuffer()):
            raise ValueError("the checksum of a block is wrong")

    @contextmanager
    def _named(self, offset: int, records_before: Callable[[], int] | None = None) -> Iterator[None]:
        """Name the file, and the block that begins at this byte, in errors.

        `records_before`: returns the number of those before an error, None: in all blocks that were read.
        """
        try:
            yield
        except fastavro().read.SchemaResolutionError as error:
            raise SourceError(f"cannot read the records of {self._path} as {self._schema}: {error}") from error
        except NOT_OF_A_VALUE:
            raise
        except OSError as error:
            done = self._done if records_before is None else records_before()
            # An error of a disk or a store, or of bzip2.
            raise SourceError(
                f"cannot read {self._path} after {done} records, in the block at byte {offset} "
                f"({self._blocks.codec}): {error}"
            ) from error
        except RAISED as error:
            codec = self._blocks.codec
            done = self._done if records_before is None else records_before()
            if _NOT_INSTALLED in str(error):
                raise ConfigurationError(
                    f"{self._path} has the codec {codec}, whose package is not installed: pip install '{AVRO}' "
                    f"({error})"
                ) from error
            # fastavro and decompressors raise many kinds of errors for damaged bytes.
            raise SourceError(
                f"{self._path}: damaged after {done} records, in the block at byte {offset} ({codec}): {error!r}"
            ) from error
