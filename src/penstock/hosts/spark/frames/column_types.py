"""Convert the types of a DataFrame's columns to types of a stream's rows, and the values of its files accordingly.

Source: Flink docs, "Data Types" of the Table API: a time with a zone (Spark's TIMESTAMP) is an Instant, one without
(TIMESTAMP_NTZ) is a LocalDateTime, in Python a datetime without a zone.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.common.errors import ProgramError
from penstock.common.time import Instant
from penstock.common.typeinfo import ListTypeInfo, MapTypeInfo, RowTypeInfo, TypeInformation, Types
from penstock.common.types import Row
from penstock.common.types.basic_types import InstantTypeInfo

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_PLAIN: dict[str, Callable[[], TypeInformation]] = {
    "BooleanType": Types.BOOLEAN,
    "ByteType": Types.BYTE,
    "ShortType": Types.SHORT,
    "IntegerType": Types.INT,
    "LongType": Types.LONG,
    "FloatType": Types.FLOAT,
    "DoubleType": Types.DOUBLE,
    "DecimalType": Types.BIG_DEC,
    "StringType": Types.STRING,
    "CharType": Types.STRING,
    "VarcharType": Types.STRING,
    "BinaryType": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "DateType": Types.SQL_DATE,
    "TimeType": Types.SQL_TIME,
    "TimestampType": Types.INSTANT,
    "TimestampNTZType": Types.SQL_TIMESTAMP,
}
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_IN_UTC = _EPOCH.replace(tzinfo=datetime.UTC)

Converter = Callable[[Any], Any]


def row_type_of(schema: StructType) -> RowTypeInfo:
    """Return the type of a DataFrame's rows. Raises ProgramError, which names the column, for an unsupported column."""
    return _row_type(schema, "")


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
    name = type(kind).__name__
    if name in _PLAIN:
        return _PLAIN[name]()
    # Compare names: workers that unpickle a source must not import Spark SQL for this.
    parts: Any = kind
    if name == "StructType":
        return _row_type(parts, f"{column}.", top)
    if name == "ArrayType":
        return Types.LIST(_type_of(parts.elementType, f"{column}[]", top))
    if name == "MapType":
        key_type = _type_of(parts.keyType, f"{column} (key)", top)
        if _has_list(key_type):
            raise ProgramError(
                f"its column {column} has keys of the type {parts.keyType.simpleString()}, and a key of a dict cannot "
                f"contain a list: convert the column to a list, as with frame.withColumn({top!r}, map_entries(...))"
            )
        return Types.MAP(key_type, _type_of(parts.valueType, f"{column} (value)", top))
    raise ProgramError(
        f"its column {column} has the type {kind.simpleString()}, for which a stream has no type: select the other "
        f"columns, or cast it, as with frame.withColumn({top!r}, ...cast('string'))"
    )


def _has_list(kind: TypeInformation) -> bool:
    if isinstance(kind, RowTypeInfo):
        return any(map(_has_list, kind.get_field_types()))
    return isinstance(kind, ListTypeInfo)


def _named(above: str) -> str:
    return f"its column {above.rstrip('.')}"


def converter_of(type_info: TypeInformation) -> Converter | None:
    """Return a function that converts a value of Arrow, other than None, to this type.

    Returns None if Arrow's values have this type already.
    """
    if isinstance(type_info, InstantTypeInfo):
        return _instant
    if isinstance(type_info, RowTypeInfo):
        return _struct_converter(type_info)
    if isinstance(type_info, ListTypeInfo):
        element = converter_of(type_info.elem_type)
        return None if element is None else lambda values: list(map(_unless_none(element), values))
    if isinstance(type_info, MapTypeInfo):
        return _map_converter(type_info)
    return None


def row_maker(type_info: RowTypeInfo) -> Callable[[Any], Row]:
    """Return a function that makes a Row from the values of Arrow for its columns, in their order."""
    factory = Row(*type_info.get_field_names())
    converters = [converter_of(kind) for kind in type_info.get_field_types()]
    if not any(converters):
        return lambda values: factory(*values)
    each = [convert and _unless_none(convert) for convert in converters]

    def make(values: Any) -> Row:
        pairs = zip(each, values, strict=True)
        return factory(*[value if convert is None else convert(value) for convert, value in pairs])

    return make


def _struct_converter(type_info: RowTypeInfo) -> Converter:
    make = row_maker(type_info)
    return lambda fields: make(fields.values())


def _map_converter(type_info: MapTypeInfo) -> Converter:
    to_key, to_value = (
        _unless_none(converter_of(kind) or _unchanged)
        for kind in (type_info._key_type_info, type_info._value_type_info)
    )
    return lambda pairs: {to_key(key): to_value(value) for key, value in pairs}


def _unless_none(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)


def _unchanged(value: Any) -> Any:
    return value


def _instant(value: datetime.datetime) -> Instant:
    # The value is in UTC, with a zone or without: files of Spark have both.
    since = value - (_EPOCH if value.tzinfo is None else _EPOCH_IN_UTC)
    return Instant(since.days * 86_400 + since.seconds, since.microseconds * 1000)
