"""Convert records (dicts, Rows, tuples, objects) to columns for columnar formats."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow

from penstock.common.columns.checks import checked_array, column_check
from penstock.common.columns.declared_types import declared_type
from penstock.common.columns.exact_records import check_nested_kinds, check_times, exact_fields
from penstock.common.columns.to_values import python_values, values_reader
from penstock.common.columns.typed_values import reader_of
from penstock.common.typeinfo import RowTypeInfo
from penstock.common.types import Row, row_factory
from penstock.common.types.basic_types import type_of_values
from penstock.common.types.record_fields import dict_factory, fields_of, object_factory
from penstock.common.types.type_hints import from_hint

_BATCH_RECORDS_MAX = 1024
_KINDS_OF_KEYS = (
    pyarrow.types.is_integer,
    pyarrow.types.is_string,
    pyarrow.types.is_boolean,
    pyarrow.types.is_float64,
    pyarrow.types.is_binary,
    pyarrow.types.is_date32,
    pyarrow.types.is_decimal128,
)
_BATCHES_IN_BUFFER = 16


class RecordColumns:
    """The columns to write, and the conversion of each field to a value of its column.

    `record_type` is a RowTypeInfo (`Types.ROW_NAMED`), a dataclass or NamedTuple with type hints, or a pyarrow.Schema.
    Raise TypeError for anything else, and for a field whose type has no column type (pickled types); ValueError for a
    schema with one name twice. Picklable.
    """

    def __init__(self, record_type: RowTypeInfo | pyarrow.Schema | type[Any]) -> None:
        record_type = type_of_values(record_type)
        self.converters: list[Callable[[Any], Any] | None]
        self.row_type: RowTypeInfo | None = None
        """The declared type of the records; None for those of a pyarrow.Schema, which are dicts."""
        if isinstance(record_type, pyarrow.Schema):
            self.schema = record_type
            self.converters = [_plain if pyarrow.types.is_nested(field.type) else None for field in record_type]
        else:
            row_type = from_hint(record_type) if isinstance(record_type, type) else record_type
            if not isinstance(row_type, RowTypeInfo):
                raise _not_a_record_type(record_type)
            types = row_type.get_field_types()
            self.row_type = row_type
            self.schema = _arrow_schema(row_type)
            self.converters = [kind.to_internal_type if kind.need_conversion() else None for kind in types]
        self.record_type = record_type
        self._checks = [column_check(field.type) for field in self.schema]
        self.names = tuple(self.schema.names)
        if not self.names:
            raise TypeError(f"expected records with at least one field, got {record_type!r}")
        for name in self.names:
            if self.names.count(name) > 1:
                raise ValueError(f"the schema has the name {name!r} twice: each column needs a name of its own")

    def only(self, names: Sequence[Any]) -> RecordColumns:
        """Return these columns, of Rows or dicts. Raises TypeError or ValueError for names that are not columns."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise ValueError(f"there is no column {missing[0]!r}: the columns are {', '.join(self.names)}")
        if not names or len(set(names)) < len(names):
            raise ValueError(f"expected names of columns, each once, got {', '.join(map(repr, names)) or 'none'}")
        if self.row_type is None:
            return RecordColumns(pyarrow.schema([self.schema.field(name) for name in names], self.schema.metadata))
        types = dict(zip(self.names, self.row_type.get_field_types(), strict=True))
        return RecordColumns(RowTypeInfo([types[name] for name in names], list(names)))

    def has_keys(self, name: str) -> bool:
        """Return whether the values of a column are those of the records, so that keys of both are the same.

        Declared types of which columns hold another form (a big decimal's text), and nested types, are not.
        """
        if name not in self.names:
            return False
        position = self.names.index(name)
        kind = self.schema.field(position).type
        is_declared_otherwise = self.row_type is not None and self.converters[position] is not None
        return not is_declared_otherwise and any(is_kind(kind) for is_kind in _KINDS_OF_KEYS)

    def has_numbers(self, name: str) -> bool:
        """Return whether the numbers of a column are those of the records."""
        position = self.names.index(name)
        return self.row_type is None or self.converters[position] is None

    @property
    def have_row_kinds(self) -> bool:
        """Whether a record has a kind, as the rows of a changelog have."""
        return isinstance(self.record_type, RowTypeInfo)

    def can_be(self, given: RecordColumns) -> bool:
        """Return whether batches of the columns `given` are batches of these: schema and order, and kinds of rows."""
        return self.schema == given.schema and (self.have_row_kinds or not given.have_row_kinds)

    @property
    def can_be_sent(self) -> bool:
        """Whether a batch can be sent without its schema: dictionaries are messages of their own in Arrow's format."""
        return not any(map(_has_dictionary, (field.type for field in self.schema)))

    def described_type(self, names: Iterable[str]) -> RowTypeInfo | None:
        """Return the declared type of these columns, that of a pyarrow.Schema too; None if it would have others."""
        if self.row_type is not None:
            return self.row_type
        kinds = [declared_type(field.type) for field in self.schema]
        unlike = {field.name for kind, field in zip(kinds, self.schema, strict=True) if kind.to_arrow() != field.type}
        return None if unlike.intersection(names) else RowTypeInfo(kinds, list(self.names))

    def of(self, records: Sequence[Any]) -> list[Sequence[Any]]:
        """Return the values of each column. A key missing from a dict is None; other records must have all fields."""
        if all(type(record) is dict for record in records):
            return [[record.get(name) for record in records] for name in self.names]
        return list(zip(*(fields_of(record, self.names, has_all=False) for record in records), strict=True))

    def batch(self, columns: Sequence[Sequence[Any]]) -> pyarrow.RecordBatch:
        """Convert values to Arrow. Raise TypeError, which names the column, if a value does not match its type."""
        arrays = []
        for field, convert, check, values in zip(self.schema, self.converters, self._checks, columns, strict=True):
            try:
                converted = values if convert is None else list(map(convert, values))
                arrays.append(checked_array(converted, field.type, check))
            except Exception as error:
                raise TypeError(f"column {field.name!r} ({field.type}): {_of_value(values, error)}{error}") from error
            if not field.nullable and arrays[-1].null_count:
                raise TypeError(f"column {field.name!r} ({field.type}): the schema does not allow None")
        return pyarrow.RecordBatch.from_arrays(arrays, schema=self.schema)

    def batch_of(self, records: Sequence[Any]) -> pyarrow.RecordBatch:
        """Convert records of a stream to Arrow. Unlike `of` and `batch`, which write files, refuse what would be lost.

        Raises TypeError or ValueError, see `exact_records`.
        """
        if not records:
            return self.batch([[] for _ in self.names])
        return self.exact_batch(exact_fields(records, self.names, self.record_type))

    def exact_batch(self, columns: Sequence[Sequence[Any]]) -> pyarrow.RecordBatch:
        """Convert the values of each column to Arrow, as `batch_of` does."""
        for field, values in zip(self.schema, columns, strict=True):
            try:
                check_times(values, field.type)
                if pyarrow.types.is_nested(field.type):
                    check_nested_kinds(values)
            except ValueError as error:
                raise ValueError(f"column {field.name!r} ({field.type}): {error}") from error
        return self.batch(columns)

    def no_rows(self) -> pyarrow.RecordBatch:
        """Return a batch of this schema without rows."""
        arrays = [pyarrow.array([], kind) for kind in self.schema.types]
        return pyarrow.RecordBatch.from_arrays(arrays, schema=self.schema)

    def reader(self) -> Callable[[pyarrow.RecordBatch], list[Any]]:
        """Return a function from a batch of this schema to records of the type: Rows, objects of the class, or dicts.

        It raises what `python_values` raises. Keep it: a function that makes dicts is compiled for the columns.
        """
        make, readers = self._record_factory(), self._readers()
        return lambda batch: list(
            map(make, zip(*(read(column) for read, column in zip(readers, batch.columns, strict=True)), strict=True))
        )

    def reader_of_lists(self) -> Callable[[Sequence[Sequence[Any]]], list[Any]] | None:
        """Return what `reader` does, of the `python_values` of each column; None if the records have others."""
        if self._readers() != list(map(values_reader, self.schema.types)):
            return None
        make = self._record_factory()
        return lambda lists: list(map(make, zip(*lists, strict=True)))

    def _readers(self) -> list[Callable[[pyarrow.Array], list[Any]]]:
        kinds = self.schema.types
        readers = [*map(values_reader, kinds)]
        if self.row_type is None:
            return readers
        declared = map(reader_of, kinds, self.row_type.get_field_types())
        return [quick if read is python_values else read for quick, read in zip(readers, declared, strict=True)]

    def _record_factory(self) -> Callable[[Sequence[Any]], Any]:
        """Return the function from the values of a row to a record."""
        kind, names = self.record_type, self.names
        if isinstance(kind, pyarrow.Schema):
            return dict_factory(names)
        if not isinstance(kind, type):
            return row_factory(names)
        return getattr(kind, "_make", None) or object_factory(kind, names)


class ColumnBuffer:
    """Records to write together. They are converted to Arrow in small batches, so that their size is known."""

    def __init__(self, columns: RecordColumns, bytes_max: int) -> None:
        self.records = 0
        self.bytes = 0
        """Size of the records converted so far: all but the last few."""
        self._columns = columns
        self._batch_bytes = max(1, bytes_max // _BATCHES_IN_BUFFER)
        self._batch_records = 16
        self._batches: list[pyarrow.RecordBatch] = []
        self._values: list[list[Any]] = [[] for _ in columns.names]

    def add(self, records: Sequence[Any] | pyarrow.RecordBatch) -> None:
        """Append records, in order, or a batch with the columns of the schema, whose types are the same."""
        if isinstance(records, pyarrow.RecordBatch):
            self._convert()
            batch = pyarrow.RecordBatch.from_arrays(
                [records.column(name) for name in self._columns.names], schema=self._columns.schema
            )
            self._batches.append(batch)
            self.bytes += batch.nbytes
            self.records += len(batch)
            return
        for start in range(0, len(records), _BATCH_RECORDS_MAX):
            for column, values in zip(
                self._values, self._columns.of(records[start : start + _BATCH_RECORDS_MAX]), strict=True
            ):
                column += values
            if len(self._values[0]) >= self._batch_records:
                self._convert()
        self.records += len(records)

    def take(self) -> pyarrow.Table:
        """Return all records and clear the buffer."""
        self._convert()
        table = pyarrow.Table.from_batches(self._batches, self._columns.schema)
        self._batches = []
        self.records = self.bytes = 0
        return table

    def _convert(self) -> None:
        if self._values[0]:
            batch = self._columns.batch(self._values)
            self._batches.append(batch)
            self.bytes += batch.nbytes
            fitting = self._batch_bytes * batch.num_rows // max(1, batch.nbytes)
            self._batch_records = max(1, min(_BATCH_RECORDS_MAX, fitting))
            self._values = [[] for _ in self._columns.names]


def _of_value(values: Sequence[Any], error: Exception) -> str:
    """Return the value of an error that does not show it, if it is known: columns are converted as a whole first."""
    shown = f"{values[0]!r:.80}" if len(values) == 1 else ""
    return f"{shown} does not fit: " if shown and shown not in str(error) else ""


def _not_a_record_type(record_type: Any) -> TypeError:
    if dataclasses.is_dataclass(record_type):
        return TypeError(
            f"{record_type!r} can't be the type of columns: its hints must name types, and the arguments of __init__ "
            "must be its fields (no init=False, no InitVar)"
        )
    return TypeError(
        "the type of the records must be a Types.ROW_NAMED(...), a dataclass or NamedTuple, or a pyarrow.Schema, got "
        f"{record_type!r}"
    )


def _has_dictionary(kind: pyarrow.DataType) -> bool:
    if pyarrow.types.is_dictionary(kind):
        return True
    if isinstance(kind, pyarrow.BaseExtensionType):
        return _has_dictionary(kind.storage_type)
    return any(_has_dictionary(kind.field(index).type) for index in range(kind.num_fields))


def _arrow_schema(row_type: RowTypeInfo) -> pyarrow.Schema:
    fields = []
    for name, kind in zip(row_type.get_field_names(), row_type.get_field_types(), strict=True):
        arrow_type = kind.to_arrow()
        if arrow_type is None:
            raise TypeError(
                f"field {name!r} has the type {kind!r}, which has no column type: declare the type of its values, "
                f"Types.ROW_NAMED([..., {name!r}], [..., Types.STRING()]). A column of a DataFrame has the type "
                "PickledBytesTypeInfo if all of its values are null: pass such a type to as_columns, or cast the "
                "column in the frame"
            )
        fields.append(pyarrow.field(name, arrow_type))
    return pyarrow.schema(fields)


def _plain(value: Any) -> Any:
    """Convert Rows and dataclasses inside a value to dicts, which Arrow accepts as structs."""
    if isinstance(value, Row):
        value = value.as_dict()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
