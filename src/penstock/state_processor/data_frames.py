"""State as Spark DataFrames, and DataFrames as state.

Executors read the files, one partition per subtask that wrote them. The schema is determined beforehand: where the
types of the subtasks differ, values are pickled. Column metadata records the original type, so that a DataFrame can be
written as state again.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.common.columns.declared_types import declared_type
from penstock.common.columns.typed_values import Reader, reader_of
from penstock.common.errors import ProgramError
from penstock.common.typeinfo import TypeInformation, Types
from penstock.engine.checkpoint.column_types import TYPE_KEY, field_for, from_column, pickled_field, to_column, type_of
from penstock.engine.checkpoint.columns import read_schema, read_tables
from penstock.engine.checkpoint.storage import SavepointStorage
from penstock.engine.checkpoint.type_encoding import encode_type
from penstock.engine.plan.pickling import dump_main_classes, load_main_classes
from penstock.engine.snapshots.keyed_table import KeyedTable
from penstock.engine.state.handles import KeyedFile
from penstock.hosts.spark.frames.column_types import schema_in_spark, type_in_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPE = "penstock.type"
_PICKLED = "penstock.pickled"
_ROWS_AT_ONCE = 4_096
Columns = dict[str, list[Any]]


@dataclasses.dataclass
class _Share:
    """The input of one task: a chain of files of a subtask."""

    root: str
    table: KeyedTable
    chain: list[KeyedFile]
    groups: range

    @property
    def is_typed(self) -> bool:
        """Whether the files are Parquet; otherwise types are derived from the values."""
        return all(file.columns for file in self.chain)

    def fields(self) -> list[dict[str, pa.Field]]:
        """Return the fields of each Parquet file, or of each part of the values."""
        if self.is_typed:
            schemas = [read_schema(self._files().read, file) for file in self.chain]
            return [{name: schema.field(name) for name in self.table.columns} for schema in schemas]
        return [
            {name: _field_of(name, values) for name, values in columns.items() if any(v is not None for v in values)}
            for columns in self._columns()
        ]

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the common schema."""
        if not self.is_typed:
            for columns in self._columns():
                yield _batch_of(schema, columns)
            return
        for file in self.chain:
            for table, _ in read_tables(self._files().read, file, self.groups):
                arrays = [_like(table.schema.field(field.name), table.column(field.name), field) for field in schema]
                yield from pa.Table.from_arrays(arrays, names=schema.names).to_batches(_ROWS_AT_ONCE)

    def _columns(self) -> Iterator[Columns]:
        rows = self.table.rows_of_chain(self.chain, self.groups)
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            yield dict(zip(self.table.columns, map(list, zip(*some, strict=True)), strict=True))

    def _files(self) -> SavepointStorage:
        return SavepointStorage(self.root)


def data_frame_of_table(spark: SparkSession, root: str, table: KeyedTable) -> DataFrame:
    """Return a keyed state as a DataFrame."""
    shares = [_Share(root, table, chain, groups) for chain, groups in table.chains()]
    if all(share.is_typed for share in shares):
        found = [fields for share in shares for fields in share.fields()]
    else:
        data = _frame(spark, shares, _pickled_fields, pa.schema([pa.field("data", pa.binary())]))
        found = [fields for row in data.collect() for fields in pickle.loads(row[0])]
    fields = [_agreed(name, [one[name] for one in found if name in one]) for name in table.columns]
    schema = pa.schema(fields)
    return _described(_frame(spark, shares, lambda share: share.batches(schema), schema), fields)


def data_frame_of_items(spark: SparkSession, items: Iterable[Any], pairs: bool) -> DataFrame:
    """Return a list state, which is small, as a DataFrame; `pairs`: it is broadcast state."""
    rows = list(items)
    columns = {"key": [row[0] for row in rows], "value": [row[1] for row in rows]} if pairs else {"value": rows}
    fields = [_agreed(name, [_field_of(name, values)]) for name, values in columns.items()]
    schema = pa.schema(fields)
    table = pa.Table.from_batches([_batch_of(schema, columns).cast(_exchanged(schema))])
    return _described(spark.createDataFrame(table), fields)


def rows_of_data_frame(frame: DataFrame, names: list[str], types: dict[str, TypeInformation | None]) -> Iterator[Any]:
    """Yield the rows of a DataFrame with these columns as Python values; other columns are ignored.

    A column created by `to_dataframe` is converted back to its original type; any other is converted by its type in
    `types`, or by its own type: structs become Rows, arrays lists, maps dicts. Raises ProgramError for a missing
    column, and for one without values of its type.
    """
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise ProgramError(
            f"a DataFrame of state needs the columns {', '.join(names)}; this one has {', '.join(frame.columns)}"
        )
    frame = frame.select(*names)
    table = frame.toArrow()
    readers = [_reader_of(frame, name, table.schema.field(name).type, types.get(name)) for name in names]
    for batch in table.to_batches(_ROWS_AT_ONCE):
        yield from zip(*(read(column) for read, column in zip(readers, batch.columns, strict=True)), strict=True)


def _reader_of(frame: DataFrame, name: str, stored: pa.DataType, declared: TypeInformation | None) -> Reader:
    metadata = frame.schema[name].metadata or {}
    if metadata.get(_PICKLED):
        return partial(from_column, pickled_field(name))
    if _TYPE in metadata:
        declared = type_of(pa.field(name, stored, metadata={TYPE_KEY: metadata[_TYPE]}))
    if declared is None or declared.to_arrow() is None:
        declared = declared_type(stored)
    try:
        return reader_of(stored, declared)
    except TypeError as error:
        raise ProgramError(f"the column {name} of the DataFrame does not match the state: {error}") from None


def _field_of(name: str, values: list[Any]) -> pa.Field:
    field = field_for(name, None, values)
    return field if to_column(field, values) is not None else pickled_field(name)


def _agreed(name: str, fields: list[pa.Field]) -> pa.Field:
    """Return the common field if all fields have one type that Spark supports too, else a binary field."""
    if not fields:
        return pa.field(name, pa.string(), metadata={TYPE_KEY: encode_type(Types.STRING())})
    first = fields[0]
    alike = all(field.type == first.type and type_of(field) == type_of(first) for field in fields)
    return first if alike and type_of(first) is not None and type_in_spark(first.type) else pa.field(name, pa.binary())


def _batch_of(schema: pa.Schema, columns: Columns) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        column = to_column(field, columns[field.name])
        assert column is not None, "the field was derived from these values"
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def _frame(
    spark: SparkSession, shares: list[_Share], work: Callable[[_Share], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    classes = dump_main_classes()
    exchanged = _exchanged(schema)

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        load_main_classes(classes)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for rows in work(shares[number]):
                    yield rows.cast(exchanged)

    count = len(shares)
    return spark.range(0, count, 1, max(count, 1)).mapInArrow(read, schema_in_spark(schema))


def _exchanged(schema: pa.Schema) -> pa.Schema:
    """Return the schema in which Spark receives these columns."""
    return pa.schema([(field.name, type_in_spark(field.type)) for field in schema])


def _pickled_fields(share: _Share) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_arrays(
        [pa.array([pickle.dumps(share.fields(), protocol=5)], pa.binary())], names=["data"]
    )


def _like(stored: pa.Field, column: pa.ChunkedArray, target: pa.Field) -> pa.ChunkedArray:
    """Convert a file's column to the common field: unchanged, or pickled if the common field is binary."""
    if type_of(target) is not None:
        return column
    if type_of(stored) is None:
        return column.cast(pa.binary())
    return pa.chunked_array([to_column(target, from_column(stored, column))])


def _described(frame: DataFrame, fields: list[pa.Field]) -> DataFrame:
    for field in fields:
        known = (field.metadata or {}).get(TYPE_KEY)
        frame = frame.withMetadata(field.name, {_PICKLED: True} if known is None else {_TYPE: known.decode()})
    return frame
