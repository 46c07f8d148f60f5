"""Types of single values, and the base class of all types.

A declared type is applied where a value leaves a chain of functions (declared_values.py, declared_rows.py), and gives
columns of savepoints and files a type (`to_arrow`); values without a declared type are pickled into a binary column.
`to_internal_type` and `from_internal_type` convert between a Python value and its representation in such a column.
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
    """Whether values are made ones of this type. False if it is known from a type hint or a source, not declared."""

    def _parts(self) -> tuple[Any, ...]:
        """Return the parameters that distinguish types of one class."""
        return ()

    def to_arrow(self) -> pyarrow.DataType | None:
        """Return the Arrow type of a column of such values, or None if they are pickled."""
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
    # Precision and scale are unbounded, unlike those of Arrow's decimal types: text preserves every digit.
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
        """Return the Arrow type of the same width; text for the two unbounded number types."""
        import pyarrow

        return pyarrow.type_for_alias(_ARROW_NAMES[self._basic_type])

    def need_conversion(self) -> bool:
        """True for unbounded numbers only: their columns are text."""
        return self._basic_type in _FROM_TEXT

    def to_internal_type(self, obj: Any) -> Any:
        """Convert unbounded numbers to text; other values are unchanged. Raises ValueError for what is no number."""
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
        """A str."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo:
        """A bool."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo:
        """An int of 8 bits."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo:
        """An int of 16 bits."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo:
        """An int of 32 bits."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo:
        """An int of 64 bits."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo:
        """A float of 32 bits."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo:
        """A float of 64 bits, as Python's float."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo:
        """A str of one character."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo:
        """An int of any size."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo:
        """A decimal.Decimal."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> BasicTypeInfo:
        """An Instant."""
        return InstantTypeInfo()


class InstantTypeInfo(BasicTypeInfo):
    """An Instant; its column holds microseconds, as in PyFlink, and truncates nanoseconds."""

    def __init__(self, basic_type: BasicType = BasicType.INSTANT) -> None:
        super().__init__(basic_type)

    def to_arrow(self) -> pyarrow.DataType | None:
        """A timestamp in UTC."""
        import pyarrow

        return pyarrow.timestamp("us", "UTC")

    def need_conversion(self) -> bool:
        """Always."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """To microseconds since the epoch."""
        return None if obj is None else obj.seconds * 1_000_000 + obj.nanos // 1000

    def from_internal_type(self, obj: Any) -> Any:
        """From microseconds since the epoch."""
        return None if obj is None else Instant(obj // 1_000_000, obj % 1_000_000 * 1000)


class SqlTimeTypeInfo(TypeInformation):
    """Types of the datetime module."""

    @staticmethod
    def DATE() -> TypeInformation:
        """A datetime.date."""
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TypeInformation:
        """A datetime.time."""
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TypeInformation:
        """A datetime.datetime."""
        return TimestampTypeInfo()


class DateTypeInfo(TypeInformation):
    """A datetime.date; its column holds days since 1970-01-01."""

    def to_arrow(self) -> pyarrow.DataType | None:
        """A date."""
        import pyarrow

        return pyarrow.date32()

    def need_conversion(self) -> bool:
        """Always."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """To days since 1970-01-01. Raises ValueError for a datetime, whose time of day would be lost."""
        if obj is None:
            return None
        if isinstance(obj, datetime.datetime) or not isinstance(obj, datetime.date):
            raise ValueError(f"{obj!r:.200} is no date")
        return obj.toordinal() - _EPOCH.toordinal()

    def from_internal_type(self, obj: Any) -> Any:
        """From days since 1970-01-01."""
        return None if obj is None else datetime.date.fromordinal(obj + _EPOCH.toordinal())


class TimeTypeInfo(TypeInformation):
    """A datetime.time; its column holds microseconds since midnight and no time zone."""

    def to_arrow(self) -> pyarrow.DataType | None:
        """A time of day."""
        import pyarrow

        return pyarrow.time64("us")

    def need_conversion(self) -> bool:
        """Always."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """To microseconds since midnight. Raises ValueError for a time with a zone, which would be lost."""
        if obj is None:
            return None
        if not isinstance(obj, datetime.time):
            raise ValueError(f"{obj!r:.200} is no time of day")
        if obj.tzinfo is not None:
            raise ValueError(f"{obj!r:.200} has a zone, and a time of day has none")
        return ((obj.hour * 60 + obj.minute) * 60 + obj.second) * 1_000_000 + obj.microsecond

    def from_internal_type(self, obj: Any) -> Any:
        """From microseconds since midnight."""
        return None if obj is None else (_EPOCH + obj * _MICROSECOND).time()


class TimestampTypeInfo(TypeInformation):
    """A datetime.datetime; its column holds microseconds since the epoch without a zone. Aware values become UTC.

    Unlike in PyFlink, a naive datetime is stored unchanged and not interpreted in the local zone of the task's machine.
    """

    def to_arrow(self) -> pyarrow.DataType | None:
        """A timestamp without a time zone."""
        import pyarrow

        return pyarrow.timestamp("us")

    def need_conversion(self) -> bool:
        """Always."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """To microseconds since the epoch. Raises ValueError for nanoseconds, as those of pandas have."""
        if obj is None:
            return None
        if type(obj) is not datetime.datetime:
            if not isinstance(obj, datetime.datetime):
                raise ValueError(f"{obj!r:.200} is no datetime")
            if obj != obj:
                # pandas has such a one for none.
                return None
            if getattr(obj, "nanosecond", False):
                raise ValueError(f"{obj!r:.200} has nanoseconds: round it to microseconds")
        if obj.tzinfo is not None:
            obj = obj.astimezone(datetime.UTC).replace(tzinfo=None)
        return (obj - _EPOCH) // _MICROSECOND

    def from_internal_type(self, obj: Any) -> Any:
        """From microseconds since the epoch, to a naive datetime."""
        return None if obj is None else _EPOCH + obj * _MICROSECOND


class LocalTimeTypeInfo(TypeInformation):
    """Java's dates and times without a zone; in Python the same values as in SqlTimeTypeInfo."""

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
        """A date, a time of day or a timestamp without a time zone."""
        return self._same.to_arrow()

    def need_conversion(self) -> bool:
        """Always."""
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """To days or microseconds."""
        return self._same.to_internal_type(obj)

    def from_internal_type(self, obj: Any) -> Any:
        """From days or microseconds."""
        return self._same.from_internal_type(obj)

    def __repr__(self) -> str:
        return f"LocalTimeTypeInfo<{self._time_type.name}>"


class PickledBytesTypeInfo(TypeInformation):
    """Any picklable value: the type of values without a declared type."""


def checked_type(type_info: TypeInformation) -> TypeInformation:
    """Return `type_info`. Raises TypeError if it is not a TypeInformation."""
    if isinstance(type_info, TypeInformation):
        return type_info
    raise TypeError(f"expected a TypeInformation such as Types.LONG(), got {type_info!r}")


def _number(value: Any) -> Any:
    """A number of Python's, or one of numpy's as that. Raises ValueError for all else."""
    own = value.item() if hasattr(value, "item") else value
    if isinstance(own, bool) or not isinstance(own, (int, float, Decimal)):
        raise ValueError(f"{value!r:.200} is no number")
    return own
