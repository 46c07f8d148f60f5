"""The columns that records have, beside those of the table that they go to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow

from penstock.common.errors import ConfigurationError
from penstock.common.typeinfo import RowTypeInfo
from penstock.common.types.type_hints import from_hint
from penstock.connectors.formats.columns import Columns

RecordType: TypeAlias = RowTypeInfo | pyarrow.Schema | type[Any]
_types = pyarrow.types


def schema_of(record_type: RecordType) -> pyarrow.Schema:
    """Its columns. Raises TypeError if the type has none, or one of a field has none."""
    schema: pyarrow.Schema = Columns(record_type).schema
    return schema


def without(record_type: RecordType, columns: Sequence[str]) -> RecordType:
    """The record type without these columns, for files of a table that has them in names of folders."""
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
    """Raises ConfigurationError for partitions by columns that are missing, or whose values don't name a folder."""
    for name in columns:
        if name not in schema.names:
            raise ConfigurationError(
                f"{where} is partitioned by {name!r}, and the records have {_listed(schema.names)}"
            )
        kind = schema.field(name).type
        if not (_is_text(kind) or _types.is_integer(kind) or _types.is_boolean(kind) or _types.is_date32(kind)):
            raise ConfigurationError(
                f"{where} is partitioned by {name!r}, of type {kind}: penstock writes partitions by texts, integers, "
                "booleans and dates"
            )
    if len(columns) >= len(schema.names):
        raise ConfigurationError(f"{where} needs a column other than those of its partitions, {_listed(columns)}")


def check_columns(records: pyarrow.Schema, table: pyarrow.Schema, where: str) -> None:
    """Raises ConfigurationError if records do not fit the table: columns that it has not, other types, or too few.

    Columns that the records have not are null in what is added.
    """
    if unknown := [name for name in records.names if name not in table.names]:
        raise ConfigurationError(f"{where} has no column {_listed(unknown)}: it has {_listed(table.names)}")
    for field in table:
        if field.name not in records.names:
            if not field.nullable:
                raise ConfigurationError(f"{where} needs the column {field.name!r}, which the records have not")
            continue
        given = records.field(field.name)
        if not _same(given.type, field.type):
            raise ConfigurationError(
                f"{where}: the column {field.name!r} is {field.type}, and that of the records {given.type}: declare "
                "the type of the table"
            )
        if given.nullable and not field.nullable:
            raise ConfigurationError(
                f"{where}: the column {field.name!r} has no nulls: declare the records by a pyarrow.Schema, with "
                f"pyarrow.field({field.name!r}, ..., nullable=False)"
            )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _same(given: pyarrow.DataType, wanted: pyarrow.DataType) -> bool:
    """Whether values of one type are values of the other, however they lie in memory."""
    if _is_text(given):
        return _is_text(wanted)
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


def _is_text(kind: pyarrow.DataType) -> bool:
    return bool(_types.is_string(kind) or _types.is_large_string(kind) or _types.is_string_view(kind))


def _is_bytes(kind: pyarrow.DataType) -> bool:
    return bool(_types.is_binary(kind) or _types.is_large_binary(kind) or _types.is_binary_view(kind))


def _is_list(kind: pyarrow.DataType) -> bool:
    return bool(_types.is_list(kind) or _types.is_large_list(kind))
