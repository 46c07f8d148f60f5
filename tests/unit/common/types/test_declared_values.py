"""Values of declared types, where they leave a chain: what they become, one by one and by chunks."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest

from penstock.common import Row, Types
from penstock.common.typeinfo import ExternalTypeInfo, TypeInformation, from_hint
from penstock.common.types.declared_values import chunk_converter, value_converter

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
        (Types.INT(), "1", "'1' of type str can't be of type INT: a number can"),
        (PAIR, ("a", 1, 2), r"\('a', 1, 2\) has 3 values, and TupleTypeInfo\(String, Integer\) 2"),
        (PAIR, 7, r"7 can't be a TupleTypeInfo"),
        (Types.BYTE(), 200, "200 is no BYTE, which goes from -128 to 127: declare it a LONG"),
        (Types.SHORT(), -40_000, "-40000 is no SHORT"),
        (Types.INT(), 2**31, "2147483648 is no INT, which goes from -2147483648 to 2147483647: declare it a LONG"),
        (Types.INT(), -(2**31) - 1.5, "-2147483649 is no INT"),
        (PAIR, Pair("a", 2**31), "2147483648 is no INT"),
        (Types.MAP(Types.STRING(), Types.INT()), {"a": 2**31}, "2147483648 is no INT"),
    ],
)
def test_what_does_not_fit_is_refused(type_info: TypeInformation, value: Any, message: str) -> None:
    """A column of a file or a savepoint would be refused hours later, fields be lost, or sums be wrong."""
    convert: Any = chunk_converter(type_info)
    with pytest.raises((TypeError, ValueError), match=message):
        convert([value])
