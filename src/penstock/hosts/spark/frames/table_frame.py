"""DataFrames of what a program has in memory: tables of Arrow, and collections of Rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.typeinfo import RowTypeInfo
from penstock.common.types import Row, RowKind
from penstock.hosts.spark.frames.column_types import schema_in_spark
from penstock.hosts.spark.frames.worker_function import exchanged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def table_of_records(records: Sequence[Any], row_type: RowTypeInfo) -> pyarrow.Table | None:
    """Return records as a table of their declared type; None unless the same records can be made of it again."""
    if any(type(record) is not Row or record._row_kind is not RowKind.INSERT for record in records):
        return None
    columns = RecordColumns(row_type)
    try:
        batch = columns.batch_of(records)
    except (TypeError, ValueError, OverflowError):
        return None
    same = list(map(repr, columns.reader()(batch))) == list(map(repr, records))
    return pyarrow.Table.from_batches([batch]) if same else None


def is_declared(table: pyarrow.Table, row_type: RowTypeInfo) -> bool:
    """Return whether the columns of a table have the types that are declared for its rows."""
    return list(table.schema.types) == [kind.to_arrow() for kind in row_type.get_field_types()]


def frame_of_table(session: SparkSession, table: pyarrow.Table, partitions: int) -> DataFrame:
    """Return a DataFrame of these rows, in so many partitions at most: Spark would make one for each slot."""
    schema = exchanged(table.schema)
    # With the schema: without, a time without a zone would be one of the session's zone.
    renamed = table.rename_columns(schema.names).cast(schema)
    return session.createDataFrame(renamed, schema_in_spark(schema)).coalesce(partitions)
