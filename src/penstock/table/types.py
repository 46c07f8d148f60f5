"""`DataTypes`: types by the names of SQL, for formats of files. Source: Flink docs, "Data Types" of the Table API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types


class Field(NamedTuple):
    """A column of a row."""

    name: str
    type: TypeInformation


class DataTypes:
    """Types of columns for the formats CSV, Parquet and ORC, as in PyFlink. Each method returns one of `Types`.

    Lengths, precision and nullability are not checked: any column may contain None.
    """

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of booleans: `Types.BOOLEAN()`."""
        return Types.BOOLEAN()

    @staticmethod
    def TINYINT(nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of 8-bit integers: `Types.BYTE()`."""
        return Types.BYTE()

    @staticmethod
    def SMALLINT(nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of 16-bit integers: `Types.SHORT()`."""
        return Types.SHORT()

    @staticmethod
    def INT(nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of 32-bit integers: `Types.INT()`."""
        return Types.INT()

    @staticmethod
    def BIGINT(nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of 64-bit integers: `Types.LONG()`."""
        return Types.LONG()

    @staticmethod
    def FLOAT(nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of 32-bit floats: `Types.FLOAT()`."""
        return Types.FLOAT()

    @staticmethod
    def DOUBLE(nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of 64-bit floats: `Types.DOUBLE()`."""
        return Types.DOUBLE()

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of decimals: `Types.BIG_DEC()`. It has no precision, so Parquet and ORC store text."""
        return Types.BIG_DEC()

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of text: `Types.STRING()`."""
        return Types.STRING()

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of text: `Types.STRING()`."""
        return Types.STRING()

    @staticmethod
    def STRING(nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of text: `Types.STRING()`."""
        return Types.STRING()

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of bytes: `Types.PRIMITIVE_ARRAY(Types.BYTE())`."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of bytes: `Types.PRIMITIVE_ARRAY(Types.BYTE())`."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())

    @staticmethod
    def BYTES(nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of bytes: `Types.PRIMITIVE_ARRAY(Types.BYTE())`."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())

    @staticmethod
    def DATE(nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of dates: `Types.SQL_DATE()`."""
        return Types.SQL_DATE()

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of times of day: `Types.SQL_TIME()`."""
        return Types.SQL_TIME()

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of timestamps without a zone: `Types.SQL_TIMESTAMP()`."""
        return Types.SQL_TIMESTAMP()

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of points in time: `Types.INSTANT()`."""
        return Types.INSTANT()

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision: int = 6, nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of points in time: `Types.INSTANT()`."""
        return Types.INSTANT()

    @staticmethod
    def ARRAY(element_type: TypeInformation, nullable: bool = True) -> TypeInformation:  # noqa: N802
        """Return the type of lists: `Types.LIST(element_type)`."""
        return Types.LIST(element_type)

    @staticmethod
    def MAP(  # noqa: N802
        key_type: TypeInformation, value_type: TypeInformation, nullable: bool = True
    ) -> TypeInformation:
        """Return the type of dicts: `Types.MAP(key_type, value_type)`."""
        return Types.MAP(key_type, value_type)

    @staticmethod
    def ROW(row_fields: Sequence[Field] = (), nullable: bool = True) -> RowTypeInfo:  # noqa: N802
        """Return the type of Rows with these columns: `Types.ROW_NAMED`. Raises TypeError if one is not a `FIELD`."""
        for field in row_fields:
            if not isinstance(field, Field):
                raise TypeError(f"a row needs columns such as DataTypes.FIELD('id', DataTypes.INT()), got {field!r}")
        row_type = Types.ROW_NAMED([field.name for field in row_fields], [field.type for field in row_fields])
        assert isinstance(row_type, RowTypeInfo)
        return row_type

    @staticmethod
    def FIELD(name: str, data_type: TypeInformation, description: str | None = None) -> Field:  # noqa: N802
        """Return a column of a `ROW`."""
        return Field(name, data_type)
