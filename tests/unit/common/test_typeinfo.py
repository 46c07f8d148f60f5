import dataclasses
import datetime
import functools
import pickle
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional

import pyarrow as pa
import pytest

from penstock.common import Instant, Row, Types
from penstock.common.typeinfo import RowTypeInfo, TypeInformation, from_function, from_hint

PICKLED = Types.PICKLED_BYTE_ARRAY()
Meters = NewType("Meters", float)


@dataclasses.dataclass
class Flight:
    origin: str
    delay: int | None
    parent: "Flight | None" = None


class Point(NamedTuple):
    x: int
    y: float


@dataclasses.dataclass
class Derived:
    a: int
    b: int = dataclasses.field(init=False, default=0)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (int, Types.LONG()),
        (bool, Types.BOOLEAN()),
        (bytes, Types.PRIMITIVE_ARRAY(Types.BYTE())),
        (Decimal, Types.BIG_DEC()),
        (datetime.datetime, Types.SQL_TIMESTAMP()),
        (datetime.date, Types.SQL_DATE()),
        (list[str], Types.LIST(Types.STRING())),
        (dict[str, list[int]], Types.MAP(Types.STRING(), Types.LIST(Types.LONG()))),
        (tuple[int, str], Types.TUPLE([Types.LONG(), Types.STRING()])),
        (Optional[int], Types.LONG()),  # noqa: UP045 - both spellings
        (int | None, Types.LONG()),
        (Annotated[int, "ms"], Types.LONG()),
        (Meters, Types.DOUBLE()),
        (Literal["a", "b"], Types.STRING()),
        (Point, Types.ROW_NAMED(["x", "y"], [Types.LONG(), Types.DOUBLE()])),
        (Flight, Types.ROW_NAMED(["origin", "delay", "parent"], [Types.STRING(), Types.LONG(), PICKLED])),
    ],
)
def test_hints_become_types(hint: Any, expected: TypeInformation) -> None:
    """Columns of a savepoint would be pickles although the program declares their types."""
    assert from_hint(hint) == expected


@pytest.mark.parametrize(
    "hint", [list, tuple, tuple[int, ...], tuple[()], int | str, Any, None, "int", Derived, object]
)
def test_hints_that_say_too_little_are_pickled(hint: Any) -> None:
    """A value would be converted to a type that it does not have."""
    assert from_hint(hint) == PICKLED


def _annotated(value: int) -> str:
    return str(value)


def _generator(value: int) -> Iterator[tuple[str, int]]:
    yield "a", value


def _listed(value: int) -> list[tuple[str, int]]:
    return [("a", value)]


def _wrong(value: int) -> "NotThere":  # type: ignore[name-defined]  # noqa: F821
    return value


class _Callable:
    def __call__(self, value: int) -> float:
        return value

    def method(self, value: int) -> bool:
        return bool(value)


def test_functions_tell_their_results() -> None:
    """Annotated functions would still need output_type."""
    assert from_function(_annotated) == from_function(functools.partial(_annotated, 1)) == Types.STRING()
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    assert from_function(_generator, elements=True) == from_function(_listed, elements=True) == pair
    assert from_function(_listed) == Types.LIST(pair)
    assert from_function(_Callable()) == Types.DOUBLE() and from_function(_Callable().method) == Types.BOOLEAN()
    assert from_function(str) == Types.STRING()
    for silent in (lambda value: value, len, _wrong, print, _Callable):
        assert from_function(silent) is None


VALUES: list[tuple[TypeInformation, Any, pa.DataType]] = [
    (Types.STRING(), "a", pa.string()),
    (Types.BYTE(), 1, pa.int8()),
    (Types.INT(), 1, pa.int32()),
    (Types.LONG(), 2**62, pa.int64()),
    (Types.DOUBLE(), 0.1, pa.float64()),
    (Types.BOOLEAN(), True, pa.bool_()),
    (Types.BIG_INT(), 10**80, pa.string()),
    (Types.BIG_DEC(), Decimal("1.20"), pa.string()),
    (Types.INSTANT(), Instant(-1, 5000), pa.timestamp("us", "UTC")),
    (Types.SQL_DATE(), datetime.date(1969, 12, 31), pa.date32()),
    (Types.SQL_TIME(), datetime.time(23, 59, 59, 999999), pa.time64("us")),
    (Types.SQL_TIMESTAMP(), datetime.datetime(1905, 1, 1, 0, 0, 0, 1), pa.timestamp("us")),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00", pa.binary()),
    (Types.LIST(Types.SQL_DATE()), [datetime.date(2020, 1, 1), None], pa.list_(pa.date32())),
    (Types.MAP(Types.STRING(), Types.BIG_INT()), {"a": 10**30}, pa.map_(pa.string(), pa.string())),
    (Types.TUPLE([Types.LONG(), Types.STRING()]), (1, "a"), pa.struct([("f0", pa.int64()), ("f1", pa.string())])),
    (Types.ROW([Types.LONG()]), Row(1), pa.struct([("f0", pa.int64())])),
    (Types.ROW_NAMED(["a"], [Types.SQL_DATE()]), Row(a=datetime.date(2020, 1, 1)), pa.struct([("a", pa.date32())])),
    (from_hint(Point), Point(1, 0.5), pa.struct([("x", pa.int64()), ("y", pa.float64())])),
]


@pytest.mark.parametrize(("type_info", "value", "arrow"), VALUES, ids=lambda part: str(part)[:30])
def test_values_come_back_from_an_arrow_column(type_info: TypeInformation, value: Any, arrow: pa.DataType) -> None:
    """State read from a savepoint would not be the state that was written."""
    assert type_info.to_arrow() == arrow
    internal = [type_info.to_internal_type(value), type_info.to_internal_type(None)]
    array = pa.array(internal, arrow)
    if not pa.types.is_temporal(arrow):
        stored = array.to_pylist()
        if not pa.types.is_nested(arrow):
            internal = stored
    assert [type_info.from_internal_type(part) for part in internal] == [value, None]


def test_a_pickled_part_makes_the_whole_pickled() -> None:
    """A column would have a type that part of its values do not have."""
    for type_info in (
        PICKLED,
        Types.LIST(PICKLED),
        Types.MAP(Types.STRING(), PICKLED),
        Types.TUPLE([Types.LONG(), PICKLED]),
        Types.ROW([PICKLED]),
    ):
        assert type_info.to_arrow() is None


def test_aware_datetimes_become_utc() -> None:
    """The same moment from two time zones would be two moments in a savepoint."""
    zone = datetime.timezone(datetime.timedelta(hours=2))
    there = Types.SQL_TIMESTAMP().to_internal_type(datetime.datetime(2020, 1, 1, 2, tzinfo=zone))
    assert there == Types.SQL_TIMESTAMP().to_internal_type(datetime.datetime(2020, 1, 1))


def test_types_are_values() -> None:
    """A restore could not compare a state's type with its earlier type."""
    for type_info, _, _ in VALUES:
        assert pickle.loads(pickle.dumps(type_info)) == type_info and hash(type_info) == hash(type_info)
    assert Types.LONG() != Types.INT() and Types.LIST(Types.LONG()) != Types.BASIC_ARRAY(Types.LONG())
    assert Types.ROW_NAMED(["a"], [Types.INT()]) != Types.ROW_NAMED(["b"], [Types.INT()])
    assert repr(Types.MAP(Types.STRING(), Types.LONG())) == "MapTypeInfo<String, Long>"
    assert repr(Types.ROW_NAMED(["a"], [Types.INT()])) == "RowTypeInfo(a: Integer)"


def test_rows_are_read_from_what_users_give() -> None:
    """A dict or a row with another order of names would fill the wrong columns."""
    type_info = RowTypeInfo([Types.LONG(), Types.STRING()], ["id", "name"])
    for value in (Row(name="a", id=1), Row(1, "a"), (1, "a"), {"name": "a", "id": 1}):
        assert type_info.to_internal_type(value) == {"id": 1, "name": "a"}


def test_a_field_that_is_not_there_has_no_index() -> None:
    """-1 is a position in Python: a slip of the pen would read the last field."""
    type_info = RowTypeInfo([Types.LONG(), Types.STRING()], ["id", "name"])
    assert type_info.get_field_index("name") == 1
    with pytest.raises(ValueError, match="unknown field 'nam', the type has id, name"):
        type_info.get_field_index("nam")
    unnamed = RowTypeInfo([Types.LONG()])
    assert unnamed.get_field_index("f0") == 0 and unnamed.get_field_index("x") == -1, "as PyFlink answers"


def test_wrong_elements_are_refused() -> None:
    """`Types.LIST(int)` would fail in a worker."""
    with pytest.raises(TypeError, match=r"such as Types.LONG\(\)"):
        Types.LIST(int)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="primitive array"):
        Types.PRIMITIVE_ARRAY(Types.STRING())
    with pytest.raises(ValueError, match="got 1 types"):
        Types.ROW_NAMED(["a", "b"], [Types.INT()])
