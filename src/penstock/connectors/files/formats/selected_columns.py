"""Files of columns: which of them are read, and their values as records. For Parquet and ORC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow
from pyarrow import compute

from penstock.common.errors import SourceError
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED, results_of
from penstock.common.typeinfo import RowTypeInfo, TypeInformation
from penstock.connectors.files.formats.declared_columns import Convert, conversion_of
from penstock.connectors.files.formats.nanoseconds import read_as

_FIRST_DAY, _DAY_BEYOND = -719_162, 2_932_897
"""From 1970-01-01 to those between which Python has dates: year 1, and year 10,000."""
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}


class SelectedColumns:
    """All columns of each file (None), those of some names, or those of a row type, with its types.

    Raises TypeError or ValueError for anything else.
    """

    def __init__(self, columns: Sequence[str] | RowTypeInfo | None, as_row: bool) -> None:
        if isinstance(columns, str):
            raise TypeError(f"columns must be a list of names, got the text {columns!r}")
        self.row_type = columns if isinstance(columns, RowTypeInfo) else None
        names = columns.get_field_names() if isinstance(columns, RowTypeInfo) else columns
        if names is not None and not names:
            raise ValueError("columns is empty; None means all columns")
        self._names = None if names is None else list(names)
        self._as_row = as_row

    def of_file(self, path: str, schema: pyarrow.Schema) -> FileColumns:
        """Those of a file. Raises SourceError for a name that it lacks, and for a type that a declared one can't be.

        Of a row type, a column that the file lacks is null. Source: Flink, `ParquetVectorizedInputFormat`.
        """
        there = schema.names
        if twice := sorted({name for name in there if there.count(name) > 1}):
            raise SourceError(f"{path}: two columns have one name: {', '.join(twice)}")
        names = there if self._names is None else self._names
        if self.row_type is None:
            missing = [name for name in names if name not in there]
            if missing:
                raise SourceError(
                    f"{path}: there is no column {', '.join(missing)}; its columns are {', '.join(there)}. Of a "
                    "Types.ROW_NAMED(...) in the place of the names, what a file lacks is None"
                )
            return FileColumns(path, names, names, {}, {})
        stored = [name for name in names if name in there]
        conversions, declared = {}, {}
        for name, kind in zip(names, self.row_type.get_field_types(), strict=True):
            if name not in there:
                continue
            try:
                convert = conversion_of(schema.field(name).type, kind, name, self._as_row)
            except ValueError as error:
                raise SourceError(f"{path}: {error}") from None
            if convert is not None:
                conversions[name] = convert
            declared[name] = kind
        # The number of rows is that of any column.
        return FileColumns(path, names, stored or there[:1], conversions, declared)


class FileColumns:
    """The columns of a record, by `names`, and those that are `stored` in a file."""

    def __init__(
        self,
        path: str,
        names: list[str],
        stored: list[str],
        conversions: dict[str, Convert],
        declared: dict[str, TypeInformation],
    ) -> None:
        self.path = path
        self.names = names
        self.stored = stored
        self._lacks = set(names).difference(stored)
        self._conversions = conversions
        self._declared = declared

    def records(self, batch: pyarrow.RecordBatch, make: Callable[..., Any], first_row: int) -> list[Any]:
        """Call `make` with each row's values.

        `first_row`: how many rows of the file come before the batch. Raises SourceError that names the file, the row
        and the column for a value that Python, or the declared type, does not have.
        """
        rows = zip(*(self._column(batch, name, first_row) for name in self.names), strict=True)
        return results_of(make, batch.num_rows, rows)

    def _column(self, batch: pyarrow.RecordBatch, name: str, first_row: int) -> list[Any]:
        if name in self._lacks:
            return [None] * batch.num_rows
        try:
            column = batch.column(name)
        except KeyError:
            # pyarrow leaves out a struct without fields.
            raise SourceError(f"{self.path}: the column {name!r} has no values that pyarrow reads") from None
        try:
            return self._values(column, name)
        except NOT_OF_A_VALUE:
            raise
        except RAISED:
            # A column is converted at once. Only one that fails is looked through for the first bad value.
            for index in range(len(column)):
                try:
                    if pyarrow.types.is_string(column.type):
                        # NumPy's conversion does not say that a text is not UTF-8.
                        column[index].as_py()
                    self._values(column.slice(index, 1), name)
                except NOT_OF_A_VALUE:
                    raise
                except RAISED as error:
                    where = f"{self.path}, row {first_row + index + 1}, column {name!r} ({column.type!s:.100})"
                    raise SourceError(f"{where}: {_reason(error)}") from error
            raise

    def _values(self, column: pyarrow.Array, name: str) -> list[Any]:
        wanted = read_as(column.type, self._declared.get(name))
        values = _values(column if wanted == column.type else column.cast(wanted))
        convert = self._conversions.get(name)
        if convert is None:
            return values
        try:
            return [None if value is None else convert(value) for value in values]
        except (ValueError, ArithmeticError) as error:
            raise _NotOfTypeError(repr(error)) from error


class _NotOfTypeError(Exception):
    """A value that the declared type of its column does not have."""


def _reason(error: BaseException) -> str:
    if isinstance(error, _NotOfTypeError):
        return f"the declared type does not have this value: {error}"
    if isinstance(error, UnicodeDecodeError):
        return f"the text is not UTF-8: {error.reason} at byte {error.start}"
    if isinstance(error, pyarrow.ArrowInvalid):
        # Of a cast that would lose nanoseconds.
        return (
            f"the value has nanoseconds, which Python's times do not have: declare it as Types.INSTANT() of a "
            f"Types.ROW_NAMED(...), which has them: {error}"
        )
    # Dates and times before the year 1 and after 9999.
    return f"Python has no such value: {error}"


def _values(column: pyarrow.Array) -> list[Any]:
    """Convert an Arrow array to Python values.

    Through NumPy where the result is equal: 20 ns per value instead of 150.
    """
    kind = column.type
    numeric = pyarrow.types.is_integer(kind) or pyarrow.types.is_float64(kind) or pyarrow.types.is_boolean(kind)
    if numeric and column.null_count == 0:
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    per_day = _moments_per_day(kind)
    if per_day and len(column) > column.null_count == 0:
        # 30 ns per value instead of a microsecond. What Python has no date for would become a number.
        least, most = (scalar.value for scalar in compute.min_max(column).values())
        if _FIRST_DAY * per_day <= least and most < _DAY_BEYOND * per_day:
            return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]


def _moments_per_day(kind: pyarrow.DataType) -> int:
    """Of dates, and of timestamps without a zone that are as precise as Python's or less; 0: of other types."""
    if kind == pyarrow.date32():
        return 1
    return _PER_DAY.get(kind.unit, 0) if pyarrow.types.is_timestamp(kind) and kind.tz is None else 0
