"""A source of a table in memory: a frame of pandas or Polars, or a table of Arrow."""

from __future__ import annotations

import contextlib
from copy import copy
from typing import Any

import pyarrow

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source
from penstock.common.columns.declared_types import declared_type
from penstock.common.columns.fitted import fitted
from penstock.common.columns.layouts import has_other_layout, in_usual_layout
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import SourceError
from penstock.common.typeinfo import RowTypeInfo
from penstock.common.types import Row
from penstock.connectors.base.ranges import RangeSplit, contiguous
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator
from penstock.connectors.base.split_reader import Chunk, SplitReader
from penstock.connectors.files.formats.selected_columns import SelectedColumns, batch_of_file
from penstock.connectors.formats.row_values import row_maker

_NAME = "the frame"


class TableSource(Source[Row]):
    """Emit the rows of a table, each once, as Rows with the names and types of its columns.

    They are in order at parallelism 1; else subtask i emits the i-th contiguous part in order. The table is sent to the
    workers with the source; splits and positions are ranges of rows: a restored job needs the table that it had.
    Raise TypeError for an object of another kind and for columns that Arrow does not have, and ValueError for columns
    of one name.
    """

    def __init__(self, frame: Any) -> None:
        """`frame`: a pandas.DataFrame, a polars.DataFrame, a pyarrow.Table or a pyarrow.RecordBatch."""
        table = table_of(frame)
        if table is None:
            raise TypeError(f"expected a frame of pandas or Polars, or a table of Arrow, got {frame!r:.200}")
        table = _in_usual_layout(table)
        names = table.column_names
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"the frame has several columns {', '.join(doubled)}: rename them")
        if not names:
            raise ValueError("the frame has no columns")
        self._row_type = RowTypeInfo([declared_type(field.type) for field in table.schema], names)
        self._table = _as_declared(table, self._row_type)
        self._columns: RecordColumns | None = None
        """The columns of its batches, None: it has records."""

    def describe(self) -> str:
        return f"{self._table.num_rows:,} rows of {self._table.num_columns} columns"

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> FixedSplitEnumerator:
        """Create one split per subtask."""
        return FixedSplitEnumerator(context, contiguous(0, self._table.num_rows, context.parallelism))

    def restore_enumerator(self, context: EnumeratorContext, state: list[RangeSplit]) -> FixedSplitEnumerator:
        """Restore the splits that were not assigned."""
        return FixedSplitEnumerator(context, state)

    def create_reader(self, context: ReaderContext) -> SplitReader[Any]:
        """Create a reader of rows, or of batches."""
        return _TableReader(context, self._table, self._row_type, self._columns)

    def get_produced_type(self) -> RowTypeInfo:
        """Return the type of the rows."""
        return self._row_type

    def on_columns(self, columns: RecordColumns) -> TableSource | None:
        """Return a source of batches, if the table has these columns."""
        if not set(columns.names) <= set(self._table.column_names):
            return None
        of_columns = copy(self)
        of_columns._columns = columns
        return of_columns


class _TableReader(SplitReader[Any]):
    def __init__(
        self, context: ReaderContext, table: pyarrow.Table, row_type: RowTypeInfo, columns: RecordColumns | None
    ) -> None:
        super().__init__(context)
        self._table = table
        self._of_records = columns
        names = table.column_names if columns is None else columns.names
        selected = SelectedColumns(row_type, as_row=True).only(names)
        self._columns = selected.of_file(_NAME, table.schema)
        self._make = row_maker(self._columns.names, as_row=True)

    def read(self, split: RangeSplit, max_records: int) -> Chunk:
        numbers, position = split.take(max_records)
        if numbers.stop > self._table.num_rows:
            raise SourceError(
                f"{_NAME} has {self._table.num_rows:,} rows, but the checkpoint or savepoint from which the job was "
                f"restored is of one with at least {split.end:,}: start the job with the same frame, or give the "
                "source another uid to read this one from its first row"
            )
        batch = _batch(self._table, numbers)
        if self._of_records is None:
            return Chunk(self._columns.records(batch, self._make, numbers.start), position)
        values: Any = batch_of_file(self._columns, batch, self._make, numbers.start, of_records=self._of_records)
        return Chunk(values, position)


def _batch(table: pyarrow.Table, rows: range) -> pyarrow.RecordBatch:
    arrays = [column.slice(rows.start, len(rows)).combine_chunks() for column in table.columns]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=table.schema)


def _in_usual_layout(table: pyarrow.Table) -> pyarrow.Table:
    """Return the table with columns that all of Arrow's functions know. Polars has views of texts."""
    for at, field in enumerate(table.schema):
        if has_other_layout(field.type):
            column = in_usual_layout(table.column(at).combine_chunks())
            table = table.set_column(at, field.with_type(column.type), column)
    return table


def _as_declared(table: pyarrow.Table, row_type: RowTypeInfo) -> pyarrow.Table:
    """Return the table with columns of the declared types, where these have the same values."""
    columns = []
    for name, kind in zip(table.column_names, row_type.get_field_types(), strict=True):
        column = table.column(name).combine_chunks()
        wanted = kind.to_arrow()
        if wanted is not None and not pyarrow.types.is_null(column.type):
            # Decimals remain, for example: their declared type has texts as columns.
            with contextlib.suppress(TypeError):
                column = fitted(column, pyarrow.field(name, wanted))
        columns.append(column)
    return pyarrow.Table.from_arrays(columns, table.column_names)


def table_of(frame: Any) -> pyarrow.Table | None:
    """Return a frame of pandas or Polars, or a table or batch of Arrow, as a table; None for another object.

    NaN in a column of pandas is null, as pandas takes it, unless the column has a type of Arrow. Raise TypeError for a
    column whose values are of several types, or that Arrow does not have: objects, periods and intervals.
    """
    if isinstance(frame, pyarrow.RecordBatch):
        return pyarrow.Table.from_batches([frame])
    if isinstance(frame, pyarrow.Table):
        return frame
    library = type(frame).__module__.partition(".")[0]
    if type(frame).__name__ != "DataFrame" or library not in ("pandas", "polars"):
        return None
    try:
        return _of_polars(frame) if library == "polars" else _of_pandas(frame)
    except (pyarrow.ArrowException, OverflowError) as error:
        raise TypeError(f"the frame of {library} cannot become a table of Arrow: {error}") from error


def _of_polars(frame: Any) -> pyarrow.Table:
    for name, kind in frame.schema.items():
        if str(kind) == "Object":
            # Polars would return the addresses of the objects.
            raise TypeError(f"the column {name!r} of polars has Python objects: cast it to another type, or drop it")
    return frame.to_arrow()


def _of_pandas(frame: Any) -> pyarrow.Table:
    table = pyarrow.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    for field in table.schema:
        if isinstance(field.type, pyarrow.BaseExtensionType) and field.type.extension_name.startswith("pandas."):
            # Its values would be numbers of periods, and dicts.
            kind = field.type.extension_name.removeprefix("pandas.")
            raise TypeError(f"the column {field.name!r} of pandas has the type {kind}: convert it to times or text")
    return table
