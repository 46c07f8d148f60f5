"""Types of single values, and the base class of all types.

A declared type is applied where a value leaves a chain of functions (declared_values.py, declared_rows.py). It also
defines the type of columns of savepoints and files (`to_arrow`); values without a declared type are pickled into a
binary column. `to_internal_type` and `from_internal_type` convert values to and from their form in such a column.
"""

# The names are PyFlink's.
# ruff: noqa: N802

from __future__ import annotations

import datetime
import enum
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from penstock.common.time import Instant
from penstock.common.types.whole_numbers import whole_number

if TYPE_CHECKING:
    import pyarrow

_MICROSECOND = datetime.timedelta(microseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1)


class TypeInformation:
    """Base class of all types. Types are values: equal if their definitions are equal, hashable, picklable."""

    applies = True
    """Whether values are converted to this type.

    False if it is not declared, but known from a type hint or a source.
    """

    def _parts(self) -> tuple[Any, ...]:
        """Return the parameters that distinguish types of one class."""
        return ()

    def to_arrow(self) -> pyarrow.DataType | None:
        """Return the Arrow type of a column of these values, or None if they are pickled."""
        return None

    def need_conversion(self) -> bool:
        """Return whether the representation in a column differs from the Python value."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        """Convert a Python value to its representation in a column. None stays None."""
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """Convert the representation in a column to the Python value. None stays None."""
        return obj

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, TypeInformation)
        return self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash((type(self), self._parts()))

    def __repr__(self) -> str:
        parts = ", ".join(map(str, self._parts()))
        return f"{type(self).__name__}<{parts}>" if parts else type(self).__name__


def type_of_values(one: Any) -> Any:
    """Return the TypeInformation behind a type of `DataTypes`, which formats of files take as well; or `one` itself."""
    return getattr(one, "type_information", one)


class BasicType(enum.Enum):
    """Types of single values, with the names that Flink prints."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


_ARROW_NAMES = {
    BasicType.STRING: "string",
    BasicType.BYTE: "int8",
    BasicType.BOOLEAN: "bool",
    BasicType.SHORT: "int16",
    BasicType.INT: "int32",
    BasicType.LONG: "int64",
    BasicType.FLOAT: "float32",
    BasicType.DOUBLE: "float64",
    BasicType.CHAR: "string",
    # Text, because their precision is unbounded, unlike in Arrow's decimal types.
    BasicType.BIG_INT: "string",
    BasicType.BIG_DEC: "string",
}
_FROM_TEXT = {BasicType.BIG_INT: int, BasicType.BIG_DEC: Decimal}
PRIMITIVES = (
    BasicType.BOOLEAN,
    BasicType.BYTE,
    BasicType.SHORT,
    BasicType.INT,
    BasicType.LONG,
    BasicType.FLOAT,
    BasicType.DOUBLE,
    BasicType.CHAR,
)


class BasicTypeInfo(TypeInformation):
    """A string, a boolean or a number."""

    def __init__(self, basic_type: BasicType) -> None:
        self._basic_type = basic_type

    def _parts(self) -> tuple[Any, ...]:
        return (self._basic_type,)

    def to_arrow(self) -> pyarrow.DataType | None:
        """Return the Arrow type of the same width, or text for the two unbounded number types."""
        import pyarrow

        return pyarrow.type_for_alias(_ARROW_NAMES[self._basic_type])

    def need_conversion(self) -> bool:
        """Return True for the unbounded number types, whose columns are text."""
        return self._basic_type in _FROM_TEXT

    def to_internal_type(self, obj: Any) -> Any:
        """Convert unbounded numbers to text; other values are unchanged. Raises ValueError if they are not numbers."""
        if obj is None or self._basic_type not in _FROM_TEXT:
            return obj
        return str(whole_number(obj) if self._basic_type is BasicType.BIG_INT else _number(obj))

    def from_internal_type(self, obj: Any) -> Any:
        """Convert text to unbounded numbers; other values are unchanged."""
        return obj if obj is None or self._basic_type not in _FROM_TEXT else _FROM_TEXT[self._basic_type](obj)

    def __repr__(self) -> str:
        return self._basic_type.value

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of str."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of bool."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of 8-bit ints."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of 16-bit ints."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of 32-bit ints."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of 64-bit ints."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of floats that are rounded to 32 bits."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of 64-bit floats: Python's float."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of str with one character."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of ints of any size."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of decimal.Decimal."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of Instant."""
        return InstantTypeInfo()


class InstantTypeInfo(BasicTypeInfo):
    """The type of Instant. Its column has microseconds, as in PyFlink, and nanoseconds are truncated."""

    def __init__(self, basic_type: BasicType = BasicType.INSTANT) -> None:
        super().__init__(basic_type)

    def to_arrow(self) -> pyarrow.DataType | None:
        """Return the Arrow type of timestamps in UTC."""
        import pyarrow

        return pyarrow.timestamp("us", "UTC")

    def need_conversion(self) -> bool:
        """Return True."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """Convert to microseconds since the epoch."""
        return None if obj is None else obj.seconds * 1_000_000 + obj.nanos // 1000

    def from_internal_type(self, obj: Any) -> Any:
        """Convert from microseconds since the epoch."""
        return None if obj is None else Instant(obj // 1_000_000, obj % 1_000_000 * 1000)


class SqlTimeTypeInfo(TypeInformation):
    """Types of the datetime module."""

    @staticmethod
    def DATE() -> TypeInformation:
        """Return the type of datetime.date."""
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TypeInformation:
        """Return the type of datetime.time."""
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TypeInformation:
        """Return the type of datetime.datetime."""
        return TimestampTypeInfo()


class DateTypeInfo(TypeInformation):
    """The type of datetime.date. Its column has days since 1970-01-01."""

    def to_arrow(self) -> pyarrow.DataType | None:
        """Return the Arrow type of dates."""
        import pyarrow

        return pyarrow.date32()

    def need_conversion(self) -> bool:
        """Return True."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """Convert to days since 1970-01-01. Raises ValueError for a datetime, whose time of day would be lost."""
        if obj is None:
            return None
        if isinstance(obj, datetime.datetime) or not isinstance(obj, datetime.date):
            raise ValueError(f"{obj!r:.200} is not a date")
        return obj.toordinal() - _EPOCH.toordinal()

    def from_internal_type(self, obj: Any) -> Any:
        """Convert from days since 1970-01-01."""
        return None if obj is None else datetime.date.fromordinal(obj + _EPOCH.toordinal())


class TimeTypeInfo(TypeInformation):
    """The type of datetime.time. Its column has microseconds since midnight, without a time zone."""

    def to_arrow(self) -> pyarrow.DataType | None:
        """Return the Arrow type of times of day."""
        import pyarrow

        return pyarrow.time64("us")

    def need_conversion(self) -> bool:
        """Return True."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """Convert to microseconds since midnight. Raises ValueError for a time with a zone, which would be lost."""
        if obj is None:
            return None
        if not isinstance(obj, datetime.time):
            raise ValueError(f"{obj!r:.200} is not a time of day")
        if obj.tzinfo is not None:
            raise ValueError(f"{obj!r:.200} must not have a time zone: it would be lost")
        return ((obj.hour * 60 + obj.minute) * 60 + obj.second) * 1_000_000 + obj.microsecond

    def from_internal_type(self, obj: Any) -> Any:
        """Convert from microseconds since midnight."""
        return None if obj is None else (_EPOCH + obj * _MICROSECOND).time()


class TimestampTypeInfo(TypeInformation):
    """The type of datetime.datetime. Its column has microseconds since the epoch, without a zone (aware values: UTC).

    Unlike in PyFlink, a naive datetime is stored unchanged, rather than interpreted in the local zone of the machine.
    """

    def to_arrow(self) -> pyarrow.DataType | None:
        """Return the Arrow type of timestamps without a time zone."""
        import pyarrow

        return pyarrow.timestamp("us")

    def need_conversion(self) -> bool:
        """Return True."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """Convert to microseconds since the epoch.

        Raises ValueError for nanoseconds, which timestamps of pandas have.
        """
        if obj is None:
            return None
        if type(obj) is not datetime.datetime:
            if not isinstance(obj, datetime.datetime):
                raise ValueError(f"{obj!r:.200} is not a datetime")
            if obj != obj:
                # pandas's NaT, which stands for a missing value.
                return None
            if getattr(obj, "nanosecond", False):
                raise ValueError(f"{obj!r:.200} has nanoseconds: round it to microseconds")
        if obj.tzinfo is not None:
            obj = obj.astimezone(datetime.UTC).replace(tzinfo=None)
        return (obj - _EPOCH) // _MICROSECOND

    def from_internal_type(self, obj: Any) -> Any:
        """Convert from microseconds since the epoch to a naive datetime."""
        return None if obj is None else _EPOCH + obj * _MICROSECOND


class LocalTimeTypeInfo(TypeInformation):
    """Java's dates and times without a zone. In Python the values are the same as those of SqlTimeTypeInfo."""

    class TimeType(enum.Enum):
        """Which of the three types."""

        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    def __init__(self, time_type: LocalTimeTypeInfo.TimeType) -> None:
        self._time_type = time_type
        self._same: TypeInformation = (DateTypeInfo, TimeTypeInfo, TimestampTypeInfo)[time_type.value]()

    def _parts(self) -> tuple[Any, ...]:
        return (self._time_type,)

    def to_arrow(self) -> pyarrow.DataType | None:
        """Return the Arrow type of dates, times of day or timestamps without a time zone."""
        return self._same.to_arrow()

    def need_conversion(self) -> bool:
        """Return True."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """Convert to days or microseconds."""
        return self._same.to_internal_type(obj)

    def from_internal_type(self, obj: Any) -> Any:
        """Convert from days or microseconds."""
        return self._same.from_internal_type(obj)

    def __repr__(self) -> str:
        return f"LocalTimeTypeInfo<{self._time_type.name}>"


class PickledBytesTypeInfo(TypeInformation):
    """The type of any picklable value, and the default if no type is declared."""


def checked_type(type_info: TypeInformation) -> TypeInformation:
    """Return `type_info`. Raises TypeError if it is not a TypeInformation."""
    if isinstance(type_info, TypeInformation):
        return type_info
    raise TypeError(f"expected a TypeInformation such as Types.LONG(), got {type_info!r}")


def _number(value: Any) -> Any:
    """Return a number, numpy's as Python's. Raises ValueError if the value is not a number."""
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, bool) or not isinstance(number, (int, float, Decimal)):
        raise ValueError(f"{value!r:.200} is not a number")
    return number
