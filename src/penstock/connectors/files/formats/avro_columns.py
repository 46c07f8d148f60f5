"""Avro container files as batches of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow

from penstock.common.columns.named_failures import named_batch
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import SourceError
from penstock.connectors.base.split_reader import Chunk
from penstock.connectors.files.formats.avro_blocks import AvroBlocks
from penstock.connectors.files.formats.format import BatchFormat
from penstock.connectors.files.formats.streams import check_all_skipped, reading_raw
from penstock.connectors.files.split import FileSplit, FoundFile
from penstock.connectors.formats.avro_datums import DatumColumns

Opened = Callable[[str, Any], tuple[AvroBlocks, Callable[[Any], list[Any]]]]
_BATCH_ROWS = 1 << 15
_BATCH_BYTES = 1024 * 1024
"""Blocks are decoded together up to this many rows or bytes: most have 16 kB, and a batch costs much by itself."""


class AvroColumns(BatchFormat[Any]):
    """Read batches of `columns`, whose values are those that `records` reads row by row."""

    def __init__(self, records: BatchFormat[Any], opened: Opened, columns: RecordColumns) -> None:
        """`opened`: returns the blocks of a file, and the function that returns the records of a block."""
        self._records = records
        self._opened = opened
        self._columns = columns

    def is_splittable(self, path: str) -> bool:
        """Return what the format returns."""
        return self._records.is_splittable(path)

    def check(self, file: FoundFile) -> None:
        """Check what the format checks."""
        self._records.check(file)

    def read(self, split: FileSplit, skipped: Callable[[int], None]) -> Iterator[Chunk]:
        """See `FileFormat.read`. Positions are those of the format, so rows may continue from them."""
        done = 0
        with reading_raw(split.path) as stream:
            for rows, batch in self._batches(split, stream):
                first = max(0, split.skip - done)
                done += rows
                if batch is None or first >= rows:
                    continue
                position = FileSplit(path=split.path, start=split.start, end=split.end, offset=split.offset, skip=done)
                yield Chunk(batch.slice(first), position)
            check_all_skipped(split.path, split.skip - done)

    def _batches(self, split: FileSplit, stream: Any) -> Iterator[tuple[int, pyarrow.RecordBatch | None]]:
        """Yield the number of rows of some blocks, and their batch; None: they are before the position of the split."""
        blocks, records_of = self._opened(split.path, stream)
        try:
            datums = DatumColumns(self._columns, blocks.writer_schema, blocks.reader_schema)
        except ValueError:
            datums = None
        done = 0
        for group in _groups(blocks):
            rows = sum(block.num_records for block in group)
            done += rows
            if done <= split.skip:
                yield rows, None
                continue
            if datums is not None and (batch := _decoded(datums, group)) is not None:
                yield rows, batch
                continue
            for block in group:
                batch = None if datums is None or len(group) == 1 else _decoded(datums, [block])
                if batch is None:
                    batch = named_batch(self._columns, records_of(block), _named(split.path, block.records_before))
                yield block.num_records, batch


def _named(path: str, records_before: int) -> Callable[[int, str], Exception]:
    return lambda at, reason: SourceError(f"{path}, record {records_before + at + 1:,}: {reason}")


def _decoded(datums: DatumColumns, group: list[Any]) -> pyarrow.RecordBatch | None:
    return datums.batch_of_blocks([(block.num_records, block.bytes_.getvalue()) for block in group])


def _groups(blocks: AvroBlocks) -> Iterator[list[Any]]:
    """Yield blocks that are decoded together. Those before a damaged one come before its error."""
    group: list[Any] = []
    rows = size = 0
    try:
        for block in blocks:
            group.append(block)
            rows += block.num_records
            size += block.bytes_.getbuffer().nbytes
            if rows >= _BATCH_ROWS or size >= _BATCH_BYTES:
                yield group
                group, rows, size = [], 0, 0
    except SourceError:
        if group:
            yield group
        raise
    if group:
        yield group
