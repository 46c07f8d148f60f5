"""Select columns of Parquet and ORC files, and convert their values to records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow

from penstock.common.columns.fitting_types import check_fits
from penstock.common.columns.named_failures import named_batch
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.schemas import as_schema
from penstock.common.columns.to_values import python_values
from penstock.common.columns.typed_values import Form, Reader, reader_of
from penstock.common.errors import SourceError
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED, results_of
from penstock.common.types.basic_types import BasicType
from penstock.common.types.composite_types import RowTypeInfo
from penstock.connectors.formats.conversion import decimal_of, integer_of


class SelectedColumns:
    """All columns of each file (None), columns by name, or those of a row type with its types.

    Raise TypeError or ValueError for anything else.
    """

    def __init__(self, columns: Sequence[str] | RowTypeInfo | None, as_row: bool) -> None:
        if isinstance(columns, str):
            raise TypeError(f"columns must be a list of names, got the text {columns!r}")
        self.row_type = columns if isinstance(columns, RowTypeInfo) else None
        names = columns.get_field_names() if isinstance(columns, RowTypeInfo) else columns
        if names is not None and not names:
            raise ValueError("columns must not be empty: None means all columns")
        self._names = None if names is None else list(names)
        self._as_row = as_row

    def may_have(self, names: Sequence[str]) -> bool:
        """Return whether records may have these fields. They have all columns of their file if none are selected."""
        return self._names is None or set(names) <= set(self._names)

    def only(self, names: Sequence[str]) -> SelectedColumns:
        """Return a selection of these columns, which records `may_have`."""
        if self.row_type is None:
            return SelectedColumns(names, self._as_row)
        types = dict(zip(self.row_type.get_field_names(), self.row_type.get_field_types(), strict=True))
        return SelectedColumns(RowTypeInfo([types[name] for name in names], list(names)), self._as_row)

    def of_file(self, path: str, schema: pyarrow.Schema) -> FileColumns:
        """Return the columns in a file. Raise SourceError for a missing name, and for a type that does not fit.

        With a row type, a missing column is null. Source: Flink, `ParquetVectorizedInputFormat`.
        """
        present = schema.names
        if duplicates := sorted({name for name in present if present.count(name) > 1}):
            raise SourceError(f"{path} has duplicate columns: {', '.join(duplicates)}")
        names = present if self._names is None else self._names
        if self.row_type is None:
            missing = [name for name in names if name not in present]
            if missing:
                raise SourceError(
                    f"{path} lacks the column {', '.join(missing)}: its columns are {', '.join(present)}. Pass a "
                    "Types.ROW_NAMED(...) instead of names to read missing columns as None"
                )
            return FileColumns(path, names, names, {})
        stored = [name for name in names if name in present]
        form = Form(rows_are_dicts=not self._as_row, keeps_zones=True, of_texts=_NUMBERS_OF_TEXTS)
        readers = {}
        for name, kind in zip(names, self.row_type.get_field_types(), strict=True):
            if name not in present:
                continue
            found = schema.field(name).type
            try:
                check_fits(found, kind, name)
            except ValueError as error:
                raise SourceError(f"{path}: {error}") from None
            readers[name] = reader_of(found, kind, form)
        # At least one column is read: it determines the number of rows.
        return FileColumns(path, names, stored or present[:1], readers)


class FileColumns:
    """The columns of a record (`names`), and those that exist in a file (`stored`).

    `readers`: for columns of a declared type.
    """

    def __init__(self, path: str, names: list[str], stored: list[str], readers: dict[str, Reader]) -> None:
        self.path = path
        self.names = names
        self.stored = stored
        self._lacks = set(names).difference(stored)
        self._readers = readers

    def records(self, batch: pyarrow.RecordBatch, make: Callable[..., Any], first_row: int) -> list[Any]:
        """Call `make` with each row's values.

        `first_row`: the number of rows of the file before the batch. Raise SourceError, which names the file, the row
        and the column, for a value that Python or the declared type cannot represent.
        """
        rows = zip(*(self._column(batch, name, first_row) for name in self.names), strict=True)
        return results_of(make, batch.num_rows, rows)

    def _column(self, batch: pyarrow.RecordBatch, name: str, first_row: int) -> list[Any]:
        if name in self._lacks:
            return [None] * batch.num_rows
        try:
            column = batch.column(name)
        except KeyError:
            # pyarrow omits a struct without fields.
            raise SourceError(f"{self.path}: pyarrow cannot read the column {name!r}") from None
        read = self._readers.get(name, python_values)
        try:
            return read(column)
        except NOT_OF_A_VALUE:
            raise
        except RAISED:
            # A column is converted as a whole. Only a failing one is searched for the first bad value.
            for index in range(len(column)):
                try:
                    read(column.slice(index, 1))
                except NOT_OF_A_VALUE:
                    raise
                except RAISED as error:
                    where = f"{self.path}, row {first_row + index + 1}, column {name!r} ({column.type!s:.100})"
                    raise SourceError(f"{where}: {_reason(error, column.slice(index, 1))}") from error
            raise


def batch_of_file(
    columns: FileColumns,
    batch: pyarrow.RecordBatch,
    make: Callable[..., Any],
    first_row: int,
    *,
    of_records: RecordColumns,
) -> pyarrow.RecordBatch:
    """Return a batch of a file as one of these columns. `make`, `first_row`, errors: as in `FileColumns.records`."""
    direct = as_schema(batch, of_records.schema)
    if direct is not None:
        return direct
    # By records: values are converted to the declared types, and errors name the row and the column.
    return named_batch(
        of_records,
        columns.records(batch, make, first_row),
        lambda at, reason: SourceError(f"{columns.path}, row {first_row + at + 1}: {reason}"),
    )


class _NotOfTypeError(Exception):
    """A text that does not fit the declared type of its column."""


def _number_of_text(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return parse(text)
        except (ValueError, ArithmeticError) as error:
            raise _NotOfTypeError(repr(error)) from error

    return convert


_NUMBERS_OF_TEXTS = {BasicType.BIG_INT: _number_of_text(integer_of), BasicType.BIG_DEC: _number_of_text(decimal_of)}


def _reason(error: BaseException, value: pyarrow.Array) -> str:
    if isinstance(error, _NotOfTypeError):
        return f"the value does not fit the declared type: {error}"
    if isinstance(error, UnicodeDecodeError):
        return f"the text is not UTF-8: {error.reason} at byte {error.start}"
    if isinstance(error, pyarrow.ArrowInvalid):
        # A cast that would lose nanoseconds.
        return (
            f"the value has nanoseconds, which Python's times cannot represent: declare it as Types.INSTANT() in a "
            f"Types.ROW_NAMED(...): {error}"
        )
    # Dates and times before the year 1 and after 9999. Arrow's text of an array has the value.
    shown = " ".join(str(value).split()).removeprefix("[ ").removesuffix(" ]")
    return f"Python cannot represent the value {shown:.80}: {error}"
