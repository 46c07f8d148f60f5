"""Values of declared types, where they leave a chain: what they become, one by one and by chunks."""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple

import pytest

from penstock.common import Row, Types
from penstock.common.typeinfo import ExternalTypeInfo, TypeInformation, from_hint
from penstock.common.types.declared_values import chunk_converter, collected_converter, value_converter

THIRD = 0.3333333432674408
"""A third, of 32 bits."""
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


class Pair(NamedTuple):
    name: str
    count: int


@pytest.mark.parametrize(
    ("type_info", "value", "expected"),
    [
        (Types.BYTE(), 127, 127),
        (Types.INT(), -(2**31), -(2**31)),
        (Types.INT(), 5, 5),
        (Types.INT(), 1.5, 1),
        (Types.INT(), None, None),
        (Types.FLOAT(), 1 / 3, THIRD),
        (Types.FLOAT(), 1e300, math.inf),
        (Types.DOUBLE(), 2, 2.0),
        (Types.DOUBLE(), None, None),
        (PAIR, ["a", 1], ("a", 1)),
        (PAIR, Pair("a", 2**31 - 1), ("a", 2**31 - 1)),
        (PAIR, None, None),
        (Types.LIST(Types.FLOAT()), [1 / 3, None], [THIRD, None]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"ab", b"ab"),
        (Types.MAP(Types.STRING(), Types.INT()), {"a": 1.5}, {"a": 1}),
        (Types.ROW_NAMED(["x"], [Types.FLOAT()]), Row(x=1 / 3), Row(x=THIRD)),
        (Types.TUPLE([PAIR]), (["a", 1],), (("a", 1),)),
        (ExternalTypeInfo(Types.FLOAT()), 1 / 3, THIRD),
    ],
    ids=str,
)
def test_values_become_ones_of_their_type(type_info: TypeInformation, value: Any, expected: Any) -> None:
    """A PyFlink program would give other numbers, and a list where it expects a tuple."""
    one, many = value_converter(type_info), chunk_converter(type_info)
    assert one is not None and many is not None
    for converted in (one(value), *many([value, value])):
        assert converted == expected and type(converted) is type(expected)


def test_what_is_converted_is_not_changed() -> None:
    """A Row that the function has kept would change under it."""
    row = Row(x=1 / 3)
    convert: Any = value_converter(Types.ROW_NAMED(["x"], [Types.FLOAT()]))
    assert convert(row).x == THIRD and row.x == 1 / 3


@pytest.mark.parametrize(
    "type_info",
    [
        None,
        Types.LONG(),
        Types.STRING(),
        Types.PICKLED_BYTE_ARRAY(),
        Types.LIST(Types.STRING()),
        Types.MAP(Types.STRING(), Types.LONG()),
        Types.ROW([Types.LONG(), Types.STRING()]),
        from_hint(Pair),
    ],
    ids=str,
)
def test_types_that_need_nothing_cost_nothing(type_info: TypeInformation | None) -> None:
    """Each record would pay at each exchange."""
    assert value_converter(type_info) is None and chunk_converter(type_info) is None


@pytest.mark.parametrize(
    ("type_info", "value", "message"),
    [
        (Types.INT(), "1", "expected a number for INT, got '1' of type str"),
        (PAIR, ("a", 1, 2), r"\('a', 1, 2\) must have 2 values as TupleTypeInfo\(String, Integer\), got 3"),
        (PAIR, 7, r"expected a tuple, list or Row for TupleTypeInfo\(String, Integer\), got 7"),
        (Types.BYTE(), 200, r"200 is not of type BYTE \(from -128 to 127\): declare it a LONG"),
        (Types.SHORT(), -40_000, "-40000 is not of type SHORT"),
        (Types.INT(), 2**31, r"2147483648 is not of type INT \(from -2147483648 to 2147483647\): declare it a LONG"),
        (Types.INT(), -(2**31) - 1.5, "-2147483649 is not of type INT"),
        (PAIR, Pair("a", 2**31), "2147483648 is not of type INT"),
        (Types.MAP(Types.STRING(), Types.INT()), {"a": 2**31}, "2147483648 is not of type INT"),
    ],
)
def test_what_does_not_fit_is_refused(type_info: TypeInformation, value: Any, message: str) -> None:
    """A column of a file or a savepoint would be refused hours later, fields be lost, or sums be wrong."""
    convert: Any = chunk_converter(type_info)
    with pytest.raises((TypeError, ValueError), match=message):
        convert([value])


@pytest.mark.parametrize(
    ("type_info", "value", "collected"),
    [
        (Types.FLOAT(), ctypes.c_float(1.23).value, 1.23),
        (Types.FLOAT(), math.inf, math.inf),
        (Types.FLOAT(), None, None),
        (Types.DOUBLE(), 1 / 3, 1 / 3),
        (Types.ROW([Types.INT(), Types.FLOAT()]), Row(1, THIRD), Row(1, 0.33333334)),
        (Types.TUPLE([Types.FLOAT(), Types.LONG()]), (THIRD, 1), (0.33333334, 1)),
        (Types.LIST(Types.FLOAT()), [THIRD, None], [0.33333334, None]),
        (Types.PRIMITIVE_ARRAY(Types.FLOAT()), [ctypes.c_float(9.87).value], [9.87]),
        (Types.MAP(Types.STRING(), Types.FLOAT()), {"a": THIRD}, {"a": 0.33333334}),
        (ExternalTypeInfo(Types.FLOAT()), THIRD, 0.33333334),
        (None, THIRD, THIRD),
    ],
)
def test_collected_floats_are_the_shortest(type_info: Any, value: Any, collected: Any) -> None:
    """A program would get 1.2300000190734863 where PyFlink's gives it the 1.23 that it has put in."""
    convert = collected_converter(type_info)
    assert (value if convert is None else convert(value)) == collected
