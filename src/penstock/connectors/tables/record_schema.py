"""The columns of records, and their comparison with the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow

from penstock.common.columns.families import is_text
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import ConfigurationError
from penstock.common.typeinfo import RowTypeInfo
from penstock.common.types.type_hints import from_hint

RecordType: TypeAlias = RowTypeInfo | pyarrow.Schema | type[Any]
_types = pyarrow.types


def schema_of(record_type: RecordType) -> pyarrow.Schema:
    """Return the columns of a record type. Raise TypeError if it has no columns, or a field has no column type."""
    schema: pyarrow.Schema = RecordColumns(record_type).schema
    return schema


def without(record_type: RecordType, columns: Sequence[str]) -> RecordType:
    """Return the record type without these columns, for files whose folders contain their values."""
    if not columns:
        return record_type
    if isinstance(record_type, pyarrow.Schema):
        return pyarrow.schema([field for field in record_type if field.name not in columns])
    row = from_hint(record_type) if isinstance(record_type, type) else record_type
    if not isinstance(row, RowTypeInfo):
        return record_type
    pairs = zip(row.get_field_names(), row.get_field_types(), strict=True)
    left = [(name, kind) for name, kind in pairs if name not in columns]
    return RowTypeInfo([kind for _, kind in left], [name for name, _ in left])


def check_partitions(columns: Sequence[str], schema: pyarrow.Schema, where: str) -> None:
    """Raise ConfigurationError for partition columns that are missing, or whose values cannot name a folder."""
    for name in columns:
        if name not in schema.names:
            raise ConfigurationError(
                f"{where} is partitioned by {name!r}, but the records have only {_listed(schema.names)}"
            )
        kind = schema.field(name).type
        if not (is_text(kind) or _types.is_integer(kind) or _types.is_boolean(kind) or _types.is_date32(kind)):
            raise ConfigurationError(
                f"{where} is partitioned by {name!r}, of type {kind}: penstock supports partitions by texts, integers, "
                "booleans and dates"
            )
    if len(columns) >= len(schema.names):
        raise ConfigurationError(f"{where} needs a column other than those of its partitions, {_listed(columns)}")


def check_columns(records: pyarrow.Schema, table: pyarrow.Schema, where: str) -> None:
    """Raise ConfigurationError if records do not fit the table: extra columns, other types, or missing ones.

    RecordColumns that the records do not have are null in the added rows.
    """
    if unknown := [name for name in records.names if name not in table.names]:
        raise ConfigurationError(f"{where} lacks the column {_listed(unknown)}: it has {_listed(table.names)}")
    for field in table:
        if field.name not in records.names:
            if not field.nullable:
                raise ConfigurationError(f"{where} needs the column {field.name!r}, which the records lack")
            continue
        given = records.field(field.name)
        if not _same(given.type, field.type):
            raise ConfigurationError(
                f"{where}: the column {field.name!r} must be {field.type}, got {given.type} in the records: declare "
                "the type of the table"
            )
        if given.nullable and not field.nullable:
            raise ConfigurationError(
                f"{where}: the column {field.name!r} does not allow nulls: declare the records by a "
                f"pyarrow.Schema, with pyarrow.field({field.name!r}, ..., nullable=False)"
            )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _same(given: pyarrow.DataType, wanted: pyarrow.DataType) -> bool:
    """Return whether values of one type are values of the other, whatever their layout in memory."""
    if is_text(given):
        return is_text(wanted)
    if _is_bytes(given):
        return _is_bytes(wanted)
    if _is_list(given):
        return _is_list(wanted) and _same(given.value_type, wanted.value_type)
    if _types.is_map(given):
        return (
            _types.is_map(wanted)
            and _same(given.key_type, wanted.key_type)
            and _same(given.item_type, wanted.item_type)
        )
    if _types.is_struct(given):
        return (
            _types.is_struct(wanted)
            and [one.name for one in given] == [one.name for one in wanted]
            and all(_same(one.type, other.type) for one, other in zip(given, wanted, strict=True))
        )
    return bool(given == wanted)


def _is_bytes(kind: pyarrow.DataType) -> bool:
    return bool(_types.is_binary(kind) or _types.is_large_binary(kind) or _types.is_binary_view(kind))


def _is_list(kind: pyarrow.DataType) -> bool:
    return bool(_types.is_list(kind) or _types.is_large_list(kind))
