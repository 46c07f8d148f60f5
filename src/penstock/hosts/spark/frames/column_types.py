"""Types of a DataFrame's columns as types of a stream's rows, by way of Arrow, and back.

Source: Flink docs, "Data Types" of the Table API: a time with a zone (Spark's TIMESTAMP) is an Instant, one without
(TIMESTAMP_NTZ) is a LocalDateTime, in Python a datetime without a zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow

from penstock.common.columns.declared_types import single_type
from penstock.common.errors import ProgramError
from penstock.common.typeinfo import ListTypeInfo, RowTypeInfo, TypeInformation, Types

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def row_type_of(schema: StructType) -> RowTypeInfo:
    """Return the type of a DataFrame's rows. Raises ProgramError, which names the column, for an unsupported column."""
    return _row_type(schema, "")


def schema_in_spark(schema: pyarrow.Schema) -> StructType:
    """Return Spark's types of these columns. Raises PySparkException for a column that Spark does not have."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def type_in_spark(kind: pyarrow.DataType) -> pyarrow.DataType | None:
    """Return the type in which Spark exchanges a column with Python, or None if Spark has no such columns.

    Spark's times have nanoseconds in Arrow, and it refuses others.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type

    try:
        return _in_arrow(from_arrow_type(kind))
    except PySparkException:
        return None


def _in_arrow(kind: DataType) -> pyarrow.DataType:
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(kind, timezone="UTC")


def _row_type(struct: StructType, above: str, top: str | None = None) -> RowTypeInfo:
    names = [field.name for field in struct.fields]
    if not names:
        raise ProgramError(f"{_named(above)} has no columns, and a row needs one" if above else "it has no columns")
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise ProgramError(f"it has two columns {above}{duplicates[0]}: rename one of them, as with frame.toDF(...)")
    types = [_type_of(field.dataType, f"{above}{field.name}", top or field.name) for field in struct.fields]
    return Types.ROW_NAMED(names, types)


def _type_of(kind: DataType, column: str, top: str) -> TypeInformation:
    """Return the type of a column, or of a part of one. `top`: the column of the frame that contains `column`."""
    from pyspark.sql import types as spark

    if isinstance(kind, spark.StructType):
        return _row_type(kind, f"{column}.", top)
    if isinstance(kind, spark.ArrayType):
        return Types.LIST(_type_of(kind.elementType, f"{column}[]", top))
    if isinstance(kind, spark.MapType):
        key_type = _type_of(kind.keyType, f"{column} (key)", top)
        if _has_list(key_type):
            raise ProgramError(
                f"its column {column} has keys of the type {kind.keyType.simpleString()}, and a key of a dict cannot "
                f"contain a list: convert the column to a list, as with frame.withColumn({top!r}, map_entries(...))"
            )
        return Types.MAP(key_type, _type_of(kind.valueType, f"{column} (value)", top))
    found = _single_type(kind)
    if found is None:
        raise ProgramError(
            f"its column {column} has the type {kind.simpleString()}, for which a stream has no type: select the other "
            f"columns, or cast it, as with frame.withColumn({top!r}, ...cast('string'))"
        )
    return found


def _single_type(kind: DataType) -> TypeInformation | None:
    from pyspark.errors import PySparkException
    from pyspark.sql import types as spark

    # A type of the user has columns of another type.
    if isinstance(kind, spark.UserDefinedType):
        return None
    if isinstance(kind, (spark.CharType, spark.VarcharType)):
        kind = spark.StringType()
    try:
        return single_type(_in_arrow(kind))
    except PySparkException:
        return None


def _has_list(kind: Any) -> bool:
    if isinstance(kind, RowTypeInfo):
        return any(map(_has_list, kind.get_field_types()))
    return isinstance(kind, ListTypeInfo)


def _named(above: str) -> str:
    return f"its column {above.rstrip('.')}"
