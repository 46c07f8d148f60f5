"""Reads a table of PostgreSQL for SQL: whole, or by ranges of a column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow
from pyarrow import types as arrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import SourceError
from penstock.common.functions.user_calls import RAISED
from penstock.connectors.base.key_range import KeyRange
from penstock.connectors.base.retries import retried
from penstock.connectors.base.table_source import TableSource
from penstock.connectors.postgres.connection import Database, quoted
from penstock.connectors.postgres.source.dialect import PostgresTable

Convert = Callable[[Any], pyarrow.Array]


class JdbcTable(PostgresTable):
    """A table as batches of `columns`, read by `column`. `bounds`: of its values that are read; None: all."""

    def __init__(
        self,
        database: Database,
        name: str,
        *,
        column: str,
        columns: RecordColumns,
        bounds: tuple[int, int] | None,
    ) -> None:
        condition = None
        if bounds is not None:
            condition = f"t.{quoted(column).replace('%%', '%')} BETWEEN {bounds[0]:d} AND {bounds[1]:d}"
        super().__init__(
            database=database,
            name=name,
            column=column,
            columns=tuple(columns.names),
            condition=condition,
            record_class=dict,
        )
        self.as_columns = columns
        self.is_partitioned = bounds is not None

    def maker(self, names: Any) -> Callable[[list[Any]], Any]:
        assert self.as_columns is not None
        schema = self.as_columns.schema
        columns = [column_of(field.type) for field in schema]

        def make(rows: list[Any]) -> pyarrow.RecordBatch:
            _, *values = zip(*rows, strict=True)
            arrays = []
            for field, convert, column in zip(schema, columns, values, strict=True):
                try:
                    arrays.append(convert(column))
                except RAISED as error:
                    raise SourceError(
                        f"cannot read {self.name}: the column {field.name} does not fit {field.type}: {error}"
                    ) from error
            return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)

        return make


def column_of(kind: pyarrow.DataType) -> Convert:
    """Return the conversion of psycopg's values to a column. Times have no more digits than the type."""
    if arrow.is_timestamp(kind) and kind.unit != "ns":
        exact = pyarrow.timestamp("us", kind.tz)
        return lambda values: pyarrow.array(values, exact).cast(kind, safe=False)
    if arrow.is_time32(kind):
        return lambda values: pyarrow.array(values, pyarrow.time64("us")).cast(kind, safe=False)
    if arrow.is_string(kind):
        # Such as UUIDs and JSON, which psycopg returns as objects.
        return lambda values: pyarrow.array([None if one is None else str(one) for one in values], kind)
    if arrow.is_binary(kind):
        return lambda values: pyarrow.array([None if one is None else bytes(one) for one in values], kind)
    if arrow.is_floating(kind):
        return lambda values: pyarrow.array([None if one is None else float(one) for one in values], kind)
    return lambda values: pyarrow.array(values, kind)


class JdbcScan(TableSource[Any]):
    """Reads a table once: by ranges of the partition column, or whole."""

    def __init__(self, table: JdbcTable, *, partition_count: int | None, fetch_size: int, max_retries: int) -> None:
        super().__init__(table, partition_count=partition_count, fetch_size=fetch_size, max_retries=max_retries)
        self._table = table

    def divide(self, parallelism: int) -> list[KeyRange]:
        """Return the ranges of the table; without a partition column, the only one."""
        if self._table.is_partitioned:
            return super().divide(parallelism)
        _, _, has_null = retried(self._table.bounds, self._max_retries)
        if has_null:
            raise SourceError(
                f"the table {self._table.name} is read in the order of the column {self._table.column}, which has "
                "NULL: declare a PRIMARY KEY or a column NOT NULL, or set scan.partition.column"
            )
        return [KeyRange(0)]
