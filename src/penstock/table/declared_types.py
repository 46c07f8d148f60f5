"""Types that programs declare, as SQL has them: `DataTypes`, texts such as `'BIGINT'`, and `Types` of DataStreams.

Source: Flink docs, "DataStream API Integration", Mapping between TypeInformation and DataType.
"""

from __future__ import annotations

from penstock.common.typeinfo import Types
from penstock.common.types.basic_types import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    InstantTypeInfo,
    LocalTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from penstock.common.types.composite_types import (
    BasicArrayTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.table.logical_types import (
    BYTES,
    STRING,
    LogicalType,
    TypeSyntaxError,
    array_of,
    decimal,
    map_of,
    parse,
)
from penstock.table.types import DataType

_BASIC = {
    BasicType.STRING: STRING,
    BasicType.BYTE: LogicalType("TINYINT"),
    BasicType.BOOLEAN: LogicalType("BOOLEAN"),
    BasicType.SHORT: LogicalType("SMALLINT"),
    BasicType.INT: LogicalType("INT"),
    BasicType.LONG: LogicalType("BIGINT"),
    BasicType.FLOAT: LogicalType("FLOAT"),
    BasicType.DOUBLE: LogicalType("DOUBLE"),
    BasicType.CHAR: LogicalType("CHAR", length=1),
    BasicType.BIG_INT: decimal(38, 0),
    BasicType.BIG_DEC: decimal(38, 18),
    BasicType.INSTANT: LogicalType("TIMESTAMP_LTZ", precision=9),
}
_NANOSECONDS = LogicalType("TIMESTAMP", precision=9)
_ARRAYS = (BasicArrayTypeInfo, ListTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)


def logical_type(one: object) -> LogicalType:
    """Return the type of SQL. Raises TypeError for what is not a type or has no column, ValueError for a wrong text."""
    if isinstance(one, DataType):
        return one.logical
    if isinstance(one, TypeInformation):
        return _of_information(one)
    if isinstance(one, str):
        try:
            return parse(one)
        except TypeSyntaxError as error:
            raise ValueError(f"{one!r} is not a type of SQL: {error}") from None
    raise TypeError(f"expected a type such as DataTypes.BIGINT() or 'BIGINT', got {one!r}")


def _of_information(one: TypeInformation) -> LogicalType:
    if isinstance(one, ExternalTypeInfo):
        return _of_information(one._type_info)
    if isinstance(one, InstantTypeInfo):
        return _BASIC[BasicType.INSTANT]
    if isinstance(one, BasicTypeInfo):
        return _BASIC[one._parts()[0]]
    if isinstance(one, LocalTimeTypeInfo):
        return _of_information(one._same)
    if isinstance(one, TimestampTypeInfo):
        return _NANOSECONDS
    if isinstance(one, DateTypeInfo):
        return LogicalType("DATE")
    if isinstance(one, TimeTypeInfo):
        return LogicalType("TIME", precision=0)
    if isinstance(one, _ARRAYS):
        (element,) = one._parts()
        is_bytes = isinstance(one, PrimitiveArrayTypeInfo) and element == Types.BYTE()
        return BYTES if is_bytes else array_of(_of_information(element))
    if isinstance(one, MapTypeInfo):
        return map_of(*map(_of_information, one._parts()))
    if isinstance(one, (RowTypeInfo, TupleTypeInfo)):
        names = one.get_field_names() if isinstance(one, RowTypeInfo) else ()
        children = tuple(map(_of_information, one.get_field_types()))
        return LogicalType(
            "ROW", names=tuple(names) or tuple(f"f{place}" for place in range(len(children))), children=children
        )
    raise TypeError(f"{one!r} has no column in a table: declare the type of the stream, such as Types.ROW_NAMED(...)")
