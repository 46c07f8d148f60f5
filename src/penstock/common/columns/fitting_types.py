"""Whether all values of a column are values of the type that the program declares for it.

The files of a table are written over years: columns are widened, and fields of nested rows are added and dropped. A
type whose values all fit the declared one is read, any other is refused before the first record. Source: ORC docs,
"Schema Evolution"; Spark docs, "Parquet Files", Schema Merging. Flink's Parquet reader fills missing columns, and
refuses other types.
"""

from __future__ import annotations

import pyarrow
from pyarrow import types as arrow

from penstock.common.columns.families import is_bytes, is_list, is_text
from penstock.common.types.basic_types import (
    BasicType,
    BasicTypeInfo,
    InstantTypeInfo,
    PickledBytesTypeInfo,
    TypeInformation,
)
from penstock.common.types.composite_types import (
    BYTES,
    LIST_TYPES,
    ExternalTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.common.types.integers import BITS

_FLOAT_BITS = {BasicType.FLOAT: (32, 24), BasicType.DOUBLE: (64, 53)}
"""All bits, and the bits of integers that the type represents exactly."""


def check_fits(stored: pyarrow.DataType, declared: TypeInformation, column: str) -> None:
    """Raise ValueError, which names the column, if it may have values outside the declared type.

    A pickled type accepts any column.
    """
    if isinstance(declared, ExternalTypeInfo):
        check_fits(stored, declared._type_info, column)
    elif arrow.is_dictionary(stored):
        check_fits(stored.value_type, declared, column)
    elif arrow.is_null(stored) or isinstance(declared, PickledBytesTypeInfo):
        return
    elif isinstance(declared, LIST_TYPES) and declared != BYTES and is_list(stored):
        check_fits(stored.value_type, declared._element_type, f"{column}[]")
    elif isinstance(declared, MapTypeInfo) and arrow.is_map(stored):
        check_fits(stored.key_type, declared._key_type_info, f"{column} (key)")
        check_fits(stored.item_type, declared._value_type_info, f"{column} (value)")
    elif isinstance(declared, (RowTypeInfo, TupleTypeInfo)) and arrow.is_struct(stored):
        present = {field.name: field.type for field in stored}
        if len(present) < stored.num_fields:
            raise ValueError(f"the column {column} has duplicate fields: {', '.join(field.name for field in stored)}")
        for name, kind in zip(declared._column_names(), declared.get_field_types(), strict=True):
            if name in present:
                check_fits(present[name], kind, f"{column}.{name}")
    elif not _fits(stored, declared):
        raise ValueError(
            f"the column {column} has the type {stored}, whose values do not fit the declared type {declared}: declare "
            "another type"
        )


def _fits(stored: pyarrow.DataType, declared: TypeInformation) -> bool:
    if isinstance(declared, BasicTypeInfo) and not isinstance(declared, InstantTypeInfo):
        return _fits_single(stored, declared._basic_type)
    own = declared.to_arrow()
    if own is None:
        # Of rows, lists or maps with pickled parts.
        return False
    if isinstance(declared, InstantTypeInfo):
        return bool(arrow.is_timestamp(stored))
    if arrow.is_timestamp(own) and arrow.is_date(stored):
        return True
    families = (is_bytes, arrow.is_date, arrow.is_time, arrow.is_timestamp)
    return any(is_member(own) and is_member(stored) for is_member in families)


def _fits_single(stored: pyarrow.DataType, kind: BasicType) -> bool:
    integer_bits = stored.bit_width + arrow.is_unsigned_integer(stored) if arrow.is_integer(stored) else 0
    if kind in (BasicType.STRING, BasicType.CHAR):
        return is_text(stored)
    if kind is BasicType.BOOLEAN:
        return bool(arrow.is_boolean(stored))
    if kind is BasicType.BIG_DEC:
        return bool(arrow.is_decimal(stored) or is_text(stored) or integer_bits)
    if kind is BasicType.BIG_INT:
        return bool(integer_bits or is_text(stored) or (arrow.is_decimal(stored) and stored.scale == 0))
    if kind in BITS:
        return 0 < integer_bits <= BITS[kind]
    bits, exact_bits = _FLOAT_BITS[kind]
    if arrow.is_floating(stored):
        return bool(stored.bit_width <= bits)
    return 0 < integer_bits <= exact_bits
