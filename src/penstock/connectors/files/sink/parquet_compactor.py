"""Compact Parquet files: copy their rows to row groups of the usual size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO

import pyarrow as pa
from pyarrow import parquet

from penstock.connectors.files.formats.parquet_format import ROW_GROUP_BYTES, ROW_GROUP_RECORDS
from penstock.connectors.files.sink.compaction import BadInputError, FileCompactor


class ParquetFileCompactor(FileCompactor):
    """Compact files of sinks with `ParquetBulkWriters`, which must have one schema. `compression`: as there."""

    def __init__(self, *, compression: str | None = "snappy") -> None:
        self._compression = compression or "none"

    def compact(self, inputs: Sequence[IO[bytes]], output: IO[bytes]) -> None:
        files = [_opened(position, file) for position, file in enumerate(inputs)]
        schema = files[0].schema_arrow
        with parquet.ParquetWriter(output, schema, compression=self._compression, write_page_checksum=True) as writer:
            for table in _row_groups(files):
                writer.write_table(table, row_group_size=table.num_rows)


def _opened(position: int, file: IO[bytes]) -> parquet.ParquetFile:
    try:
        return parquet.ParquetFile(file, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise BadInputError(position, f"it is not a Parquet file: {error}") from error


def _read(position: int, file: parquet.ParquetFile, number: int) -> pa.Table:
    """Read a row group. Raise BadInputError."""
    rows = file.metadata.row_group(number).num_rows
    try:
        table = file.read_row_group(number)
    except (pa.ArrowException, OSError, ValueError, IndexError) as error:
        raise BadInputError(position, f"cannot read row group {number}: {error}") from error
    if table.num_rows != rows:
        raise BadInputError(
            position,
            f"row group {number} is damaged: the footer has {rows:,} rows, but {table.num_rows:,} were found",
        )
    return table


def _row_groups(files: list[parquet.ParquetFile]) -> Iterator[pa.Table]:
    """Yield the rows of all files, some row groups together."""
    gathered: list[pa.Table] = []
    for position, file in enumerate(files):
        for number in range(file.num_row_groups):
            gathered.append(_read(position, file, number))
            if (
                sum(table.num_rows for table in gathered) >= ROW_GROUP_RECORDS
                or sum(table.nbytes for table in gathered) >= ROW_GROUP_BYTES
            ):
                yield pa.concat_tables(gathered)
                gathered = []
    if gathered:
        yield pa.concat_tables(gathered)
