"""Values of a program as columns with types: what `from_elements`, `from_pandas` and `from_arrow` take."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.common.columns.declared_types import declared_type
from penstock.common.time import Instant
from penstock.common.types import Row
from penstock.table.declared_types import logical_type
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.functions.user_values import writer_of
from penstock.table.logical_types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    MAX_PRECISION,
    STRING,
    LogicalType,
    array_of,
    decimal,
)
from penstock.table.logical_types import map_of as map_type
from penstock.table.types import DataType

Columns = Sequence[tuple[str, LogicalType]]

_INSTANT = LogicalType("TIMESTAMP_LTZ", precision=6)
_TYPES: tuple[tuple[type, LogicalType], ...] = (
    (bool, BOOLEAN),
    (int, BIGINT),
    (float, DOUBLE),
    (str, STRING),
    (bytes, BYTES),
    (bytearray, BYTES),
    (Decimal, decimal(38, 18)),
    (datetime.datetime, _INSTANT),
    (datetime.date, DATE),
    (datetime.time, LogicalType("TIME")),
    (Instant, LogicalType("TIMESTAMP_LTZ", precision=9)),
)
"""The types of values without a declared one. Source: PyFlink, which has instants for datetimes, too."""


def columns_of_elements(elements: Iterable[Any], schema: Any, zone: str) -> tuple[Columns, pa.Table]:
    """Return columns and their values. `schema`: a ROW, names, or None.

    Raises TypeError or ValueError, which names the element.
    """
    rows = [_fields(element, place) for place, element in enumerate(elements)]
    columns: Columns
    if isinstance(schema, DataType):
        columns = list(zip(schema.logical.names, schema.logical.children, strict=True))
        if schema.logical.root != "ROW":
            raise TypeError(f"expected DataTypes.ROW([...]) as schema, got {schema!r}")
    elif schema is None or (isinstance(schema, (list, tuple)) and all(isinstance(name, str) for name in schema)):
        columns = _inferred(rows, schema)
    else:
        raise TypeError(f"expected a DataTypes.ROW([...]) or a list of names as schema, got {schema!r}")
    names = [name for name, _ in columns]
    arrays = []
    for place, (name, kind) in enumerate(columns):
        values = [_value(row, place, name=name, names=names, number=number) for number, row in enumerate(rows)]
        arrays.append(_array(values, name, kind, zone))
    return columns, pa.Table.from_arrays(arrays, names=names)


def _fields(element: Any, place: int) -> Any:
    if isinstance(element, (Row, tuple, list, Mapping)):
        return element
    if hasattr(element, "__dict__"):
        return vars(element)
    raise TypeError(
        f"expected rows: tuples, Rows or dicts, got {element!r:.200} (element {place}). Write ({element!r:.50},)"
    )


def _value(row: Any, place: int, *, name: str, names: Sequence[str], number: int) -> Any:
    if isinstance(row, Mapping):
        return row.get(name)
    if isinstance(row, Row) and row._fields is not None and set(row._fields) == set(names):
        return row[name]
    if len(row) != len(names):
        raise ValueError(f"expected {len(names)} fields ({', '.join(names)}), got {row!r:.200} (element {number})")
    return row[place]


def _array(values: Sequence[Any], name: str, kind: LogicalType, zone: str) -> pa.Array:
    write = writer_of(kind, zone)
    try:
        array = write(values)
    except Exception as error:
        for number, value in enumerate(values):
            try:
                write([value])
            except Exception as found:
                raise TypeError(f"element {number}: {name!r} is {kind}, got {value!r:.200}: {found}") from None
        raise TypeError(f"column {name!r} ({kind}): {error}") from error
    if array.null_count and not kind.nullable:
        number = array.is_null().index(True).as_py()
        raise ValueError(f"element {number}: {name!r} is {kind}, got None")
    return array


def _inferred(rows: Sequence[Any], names: Sequence[str] | None) -> Columns:
    if not rows:
        raise ValueError("the types of columns are not known without elements: pass a DataTypes.ROW([...]) as schema")
    first = rows[0]
    if isinstance(first, Mapping):
        found = list(names or first)
    else:
        own = first._fields if isinstance(first, Row) else getattr(first, "_fields", None)
        found = [*(names or own or ())]
        # As in PyFlink: columns without a name are called _1, _2 and so on.
        found += [f"_{place + 1}" for place in range(len(found), len(first))]
    columns = []
    for place, name in enumerate(found):
        values = [_value(row, place, name=name, names=found, number=number) for number, row in enumerate(rows)]
        kinds = [_type_of(value, name) for value in values if value is not None]
        if not kinds:
            raise ValueError(f"the type of {name!r} is not known: all values are None. Pass a DataTypes.ROW([...])")
        columns.append((name, _common(kinds, name)))
    return columns


def _type_of(value: Any, name: str) -> LogicalType:
    for kind, logical in _TYPES:
        if isinstance(value, kind):
            return logical
    if isinstance(value, (Row, tuple)):
        own = value._fields if isinstance(value, Row) else getattr(value, "_fields", None)
        names = own or tuple(f"_{place + 1}" for place in range(len(value)))
        return LogicalType("ROW", names=tuple(names), children=tuple(_type_of(one, name) for one in value))
    if isinstance(value, list) and value:
        return array_of(_common([_type_of(one, name) for one in value if one is not None], name))
    if isinstance(value, dict) and value:
        keys = [_type_of(one, name) for one in value]
        values = [_type_of(one, name) for one in value.values() if one is not None]
        return map_type(_common(keys, name), _common(values, name))
    raise TypeError(f"the type of {name!r} is not known from {value!r:.200}: pass a DataTypes.ROW([...]) as schema")


def _common(kinds: Sequence[LogicalType], name: str) -> LogicalType:
    distinct = list(dict.fromkeys(kinds))
    if len(distinct) == 1:
        return distinct[0]
    if {one.root for one in distinct} == {"BIGINT", "DOUBLE"}:
        return DOUBLE
    shown = " and ".join(map(str, distinct)) or "no value"
    raise TypeError(f"{name!r} has values of several types, {shown}: pass a DataTypes.ROW([...]) as schema")


def columns_of_arrow(table: pa.Table, schema: Any) -> tuple[Columns, pa.Table]:
    """Return columns of a table of Arrow. `schema`: a ROW, names, types, or None: those of the table."""
    if not table.num_columns:
        raise ValueError("a table needs a column, got one without columns")
    if isinstance(schema, DataType):
        columns = list(zip(schema.logical.names, schema.logical.children, strict=True))
    else:
        given = list(schema or ())
        names = given if given and all(isinstance(one, str) for one in given) else [str(n) for n in table.column_names]
        if given and not all(isinstance(one, str) for one in given):
            kinds = list(map(logical_type, given))
        else:
            kinds = [_logical(field) for field in table.schema]
        if len(names) != table.num_columns or len(kinds) != table.num_columns:
            raise ValueError(f"expected {table.num_columns} names or types, got {schema!r}")
        columns = list(zip(names, kinds, strict=True))
    if len(columns) != table.num_columns:
        raise ValueError(f"expected a schema of {table.num_columns} columns, got {len(columns)}")
    arrays = []
    for (name, kind), column in zip(columns, table.columns, strict=True):
        try:
            arrays.append(column.cast(arrow_type(kind)))
        except (pa.ArrowException, NotImplementedError) as error:
            raise TypeError(f"column {name!r} ({column.type}) can't be {kind}: {error}") from None
    return columns, pa.Table.from_arrays(arrays, names=[name for name, _ in columns])


def _logical(field: pa.Field) -> LogicalType:
    """Return the type of a column of Arrow."""
    kind = field.type
    if pa.types.is_timestamp(kind):
        precision = {"s": 0, "ms": 3, "us": 6, "ns": 9}[kind.unit]
        return LogicalType("TIMESTAMP" if kind.tz is None else "TIMESTAMP_LTZ", precision=precision)
    if pa.types.is_decimal(kind) and kind.precision <= MAX_PRECISION:
        return decimal(kind.precision, kind.scale)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_dictionary(kind):
        return STRING
    if pa.types.is_struct(kind):
        return LogicalType("ROW", names=tuple(one.name for one in kind), children=tuple(map(_logical, kind)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return array_of(_logical(kind.value_field))
    if pa.types.is_map(kind):
        return map_type(_logical(kind.key_field), _logical(kind.item_field))
    if pa.types.is_unsigned_integer(kind):
        return {8: LogicalType("SMALLINT"), 16: LogicalType("INT"), 32: BIGINT}.get(kind.bit_width, decimal(20, 0))
    try:
        return logical_type(declared_type(kind))
    except (TypeError, ValueError):
        raise TypeError(f"column {field.name!r} ({kind}) has no type of SQL: convert it, or pass a schema") from None
