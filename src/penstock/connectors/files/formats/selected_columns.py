"""Files of columns: which of them are read, and their values as records. For Parquet and ORC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

from penstock.common.errors import SourceError
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED, results_of
from penstock.common.types.basic_types import InstantTypeInfo, TypeInformation
from penstock.common.types.composite_types import LIST_TYPES, ExternalTypeInfo, MapTypeInfo, RowTypeInfo, TupleTypeInfo
from penstock.connectors.files.formats.declared_columns import Convert, conversion_of

# Columns of times in nanoseconds, which pyarrow gives as values of pandas: read as what has values in Python.


def read_as(stored: pyarrow.DataType, declared: TypeInformation | None) -> pyarrow.DataType:
    """The type to which a column is cast before its values are taken: `stored`, if there are no nanoseconds in it.

    In microseconds, as Python's times are. Of a declared Instant, which has nanoseconds, their number since the epoch.
    """
    if isinstance(declared, ExternalTypeInfo):
        return read_as(stored, declared._type_info)
    if arrow.is_timestamp(stored) and stored.unit == "ns":
        return pyarrow.int64() if isinstance(declared, InstantTypeInfo) else pyarrow.timestamp("us", stored.tz)
    if arrow.is_time64(stored) and stored.unit == "ns":
        return pyarrow.time64("us")
    if arrow.is_duration(stored) and stored.unit == "ns":
        return pyarrow.duration("us")
    if arrow.is_dictionary(stored):
        values = read_as(stored.value_type, declared)
        return stored if values == stored.value_type else values
    if arrow.is_struct(stored):
        kinds = _of_fields(declared)
        return pyarrow.struct([field.with_type(read_as(field.type, kinds.get(field.name))) for field in stored])
    if arrow.is_map(stored):
        key, value = (
            (declared._key_type_info, declared._value_type_info) if isinstance(declared, MapTypeInfo) else (None, None)
        )
        key_field, value_field = stored.key_field, stored.item_field
        return pyarrow.map_(
            key_field.with_type(read_as(key_field.type, key)), value_field.with_type(read_as(value_field.type, value))
        )
    return _list(stored, declared._element_type if isinstance(declared, LIST_TYPES) else None)


def _of_fields(declared: TypeInformation | None) -> dict[str, TypeInformation]:
    if isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        return dict(zip(declared._column_names(), declared.get_field_types(), strict=True))
    return {}


def _list(stored: pyarrow.DataType, item: TypeInformation | None) -> pyarrow.DataType:
    if not (arrow.is_list(stored) or arrow.is_large_list(stored) or arrow.is_fixed_size_list(stored)):
        return stored
    field = stored.value_field.with_type(read_as(stored.value_type, item))
    if arrow.is_large_list(stored):
        return pyarrow.large_list(field)
    return pyarrow.list_(field, stored.list_size) if arrow.is_fixed_size_list(stored) else pyarrow.list_(field)


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
            return FileColumns(path=path, names=names, stored=names, conversions={}, declared={})
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
        return FileColumns(
            path=path, names=names, stored=stored or there[:1], conversions=conversions, declared=declared
        )


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
