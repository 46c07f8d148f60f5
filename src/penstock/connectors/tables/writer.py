"""Write Parquet files for a table, and number them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.api.sink import SinkContext
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.schemas import have_types_of
from penstock.common.serialization import BulkWriterFactory
from penstock.common.stored import stored_as
from penstock.connectors.files.sink.bulk_writer import BulkFileWriter
from penstock.connectors.files.sink.committer import Completed
from penstock.connectors.files.sink.divided import can_divide
from penstock.connectors.files.sink.writer import FileSinkSettings
from penstock.connectors.tables.record_schema import RecordType, schema_of

# A committable of sinks into tables: a Parquet file, and its mark in the table.


@stored_as("table-file")
class TableFile(msgspec.Struct, frozen=True):
    """File `number` of a writer, from 0; `writer` identifies one attempt of one subtask of one sink of one job.

    The table stores the greatest number of each writer, in the commit that adds the file.
    """

    file: Completed
    writer: str
    number: int


def table_takes(columns: RecordColumns, record_type: RecordType, partitions: Sequence[str]) -> bool:
    """Return whether batches of these columns are written as their records are, which `record_type` declares."""
    return have_types_of(columns.schema, schema_of(record_type)) and can_divide(columns, partitions)


class TableFileWriter(BulkFileWriter):
    """A writer whose files are added to a table when they are committed."""

    def __init__(self, context: SinkContext, settings: FileSinkSettings, factory: BulkWriterFactory) -> None:
        super().__init__(context, settings, factory=factory)
        self._number = 0
        # With random bits: a job that starts again under the same id, or twice from one savepoint, writes other files.
        self._mark = f"{context.job_id}/{context.operator_id}/{self._writer_name}"

    def prepare_commit(self) -> list[Any]:
        files = [
            TableFile(file, self._mark, self._number + index) for index, file in enumerate(super().prepare_commit())
        ]
        self._number += len(files)
        return files
