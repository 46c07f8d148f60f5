"""`DataTypes`: types by the names of SQL. Source: Flink docs, "Data Types" of the Table API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.table.logical_types import MAX_LENGTH, MAX_PRECISION, LogicalType, array_of, map_of

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation

_UNITS_OF_MONTHS = ("YEAR", "MONTH")


class DataType:
    """A type of a column with its nullability. Types are values: equal if their SQL is equal, hashable, picklable."""

    __slots__ = ("logical",)

    def __init__(self, logical: LogicalType) -> None:
        self.logical = logical

    def not_null(self) -> DataType:
        """Return this type without NULL."""
        return DataType(self.logical.with_nullability(False))

    def nullable(self) -> DataType:
        """Return this type with NULL."""
        return DataType(self.logical.with_nullability(True))

    @property
    def type_information(self) -> TypeInformation:
        """The type of `Types` for the same values, as formats of files and DataStreams have it. Not in PyFlink.

        Raises TypeError if there is none.
        """
        from penstock.table.stream_types import type_information

        return type_information(self.logical)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataType) and self.logical == other.logical

    def __hash__(self) -> int:
        return hash(self.logical)

    def __repr__(self) -> str:
        return str(self.logical)


class Field(NamedTuple):
    """A column of a row."""

    name: str
    type: DataType


class Resolution(NamedTuple):
    """A unit of an interval."""

    unit: str


class DataTypes:
    """Types of columns, as in PyFlink: of tables, of results of functions, and of the formats CSV, Parquet and ORC."""

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of booleans."""
        return DataType(LogicalType("BOOLEAN", nullable))

    @staticmethod
    def TINYINT(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of 8-bit integers."""
        return DataType(LogicalType("TINYINT", nullable))

    @staticmethod
    def SMALLINT(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of 16-bit integers."""
        return DataType(LogicalType("SMALLINT", nullable))

    @staticmethod
    def INT(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of 32-bit integers."""
        return DataType(LogicalType("INT", nullable))

    @staticmethod
    def BIGINT(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of 64-bit integers."""
        return DataType(LogicalType("BIGINT", nullable))

    @staticmethod
    def FLOAT(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of 32-bit floats."""
        return DataType(LogicalType("FLOAT", nullable))

    @staticmethod
    def DOUBLE(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of 64-bit floats."""
        return DataType(LogicalType("DOUBLE", nullable))

    @staticmethod
    def DATE(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of dates."""
        return DataType(LogicalType("DATE", nullable))

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of text of `length` characters."""
        return DataType(LogicalType("CHAR", nullable, length=_at_least_one("CHAR", length)))

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of text of at most `length` characters."""
        return DataType(LogicalType("VARCHAR", nullable, length=_at_least_one("VARCHAR", length)))

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of `length` bytes."""
        return DataType(LogicalType("BINARY", nullable, length=_at_least_one("BINARY", length)))

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of at most `length` bytes."""
        return DataType(LogicalType("VARBINARY", nullable, length=_at_least_one("VARBINARY", length)))

    @staticmethod
    def STRING(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of text of any length."""
        return DataType(LogicalType("VARCHAR", nullable, length=MAX_LENGTH))

    @staticmethod
    def BYTES(nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of bytes of any length."""
        return DataType(LogicalType("VARBINARY", nullable, length=MAX_LENGTH))

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of times of day. `precision`: digits of the fraction of a second, 0 to 9."""
        return DataType(LogicalType("TIME", nullable, precision=_digits("TIME", precision)))

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of timestamps without a zone. `precision`: digits of the fraction of a second, 0 to 9."""
        return DataType(LogicalType("TIMESTAMP", nullable, precision=_digits("TIMESTAMP", precision)))

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of points in time. `precision`: digits of the fraction of a second, 0 to 9."""
        return DataType(LogicalType("TIMESTAMP_LTZ", nullable, precision=_digits("TIMESTAMP_LTZ", precision)))

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision: int = 6, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of points in time: `TIMESTAMP_LTZ`."""
        return DataType(
            LogicalType("TIMESTAMP_LTZ", nullable, precision=_digits("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision))
        )

    @staticmethod
    def NULL() -> DataType:  # noqa: N802
        """Return the type of NULL alone."""
        return DataType(LogicalType("NULL"))

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of decimals with `precision` digits (1 to 38), `scale` of them behind the point.

        Formats of files have no precision: Parquet and ORC store text.
        """
        if not 1 <= precision <= MAX_PRECISION or not 0 <= scale <= precision:
            raise ValueError(f"expected DECIMAL of 1 to {MAX_PRECISION} digits, got DECIMAL({precision}, {scale})")
        return DataType(LogicalType("DECIMAL", nullable, precision=precision, scale=scale))

    @staticmethod
    def ARRAY(element_type: DataType, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of lists."""
        return DataType(array_of(_checked("ARRAY", element_type)).with_nullability(nullable))

    @staticmethod
    def MULTISET(element_type: DataType, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of dicts from a value to how often it is there."""
        return DataType(LogicalType("MULTISET", nullable, children=(_checked("MULTISET", element_type),)))

    @staticmethod
    def MAP(key_type: DataType, value_type: DataType, nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of dicts."""
        types = (_checked("MAP", key_type), _checked("MAP", value_type))
        return DataType(map_of(*types).with_nullability(nullable))

    @staticmethod
    def ROW(row_fields: Sequence[Field] = (), nullable: bool = True) -> DataType:  # noqa: N802
        """Return the type of Rows with these columns. Raises TypeError if one is not a `FIELD`."""
        for field in row_fields:
            if not isinstance(field, Field):
                raise TypeError(f"a row needs columns such as DataTypes.FIELD('id', DataTypes.INT()), got {field!r}")
        names = tuple(field.name for field in row_fields)
        return DataType(
            LogicalType("ROW", nullable, names=names, children=tuple(field.type.logical for field in row_fields))
        )

    @staticmethod
    def FIELD(name: str, data_type: DataType, description: str | None = None) -> Field:  # noqa: N802
        """Return a column of a `ROW`."""
        _checked("FIELD", data_type)
        return Field(name, data_type)

    @staticmethod
    def SECOND(precision: int = 6) -> Resolution:  # noqa: N802
        """Return the unit of an INTERVAL."""
        return Resolution("SECOND")

    @staticmethod
    def MINUTE() -> Resolution:  # noqa: N802
        """Return the unit of an INTERVAL."""
        return Resolution("MINUTE")

    @staticmethod
    def HOUR() -> Resolution:  # noqa: N802
        """Return the unit of an INTERVAL."""
        return Resolution("HOUR")

    @staticmethod
    def DAY(precision: int = 2) -> Resolution:  # noqa: N802
        """Return the unit of an INTERVAL."""
        return Resolution("DAY")

    @staticmethod
    def MONTH() -> Resolution:  # noqa: N802
        """Return the unit of an INTERVAL."""
        return Resolution("MONTH")

    @staticmethod
    def YEAR(precision: int = 2) -> Resolution:  # noqa: N802
        """Return the unit of an INTERVAL."""
        return Resolution("YEAR")

    @staticmethod
    def INTERVAL(  # noqa: N802
        upper_resolution: Resolution, lower_resolution: Resolution | None = None, nullable: bool = True
    ) -> DataType:
        """Return the type of intervals: of months (int) or of smaller units (timedelta)."""
        first, last = upper_resolution.unit, (lower_resolution or upper_resolution).unit
        root = "INTERVAL_MONTH" if first in _UNITS_OF_MONTHS else "INTERVAL_SECOND"
        text = first if first == last else f"{first} TO {last}"
        return DataType(LogicalType(root, nullable, resolution=text))


def _checked(what: str, one: object) -> LogicalType:
    if not isinstance(one, DataType):
        raise TypeError(f"{what} needs a type such as DataTypes.INT(), got {one!r}")
    return one.logical


def _at_least_one(what: str, length: int) -> int:
    if not 1 <= length <= MAX_LENGTH:
        raise ValueError(f"expected a length of {what} from 1 to {MAX_LENGTH}, got {length!r}")
    return length


def _digits(what: str, precision: int) -> int:
    if not 0 <= precision <= 9:
        raise ValueError(f"expected a precision of {what} from 0 to 9, got {precision!r}")
    return precision
