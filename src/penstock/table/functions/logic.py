"""AND, OR, NOT and the tests for TRUE, FALSE, UNKNOWN and NULL, in three values."""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions.columns import Column
from penstock.table.functions.registry import Call, Family
from penstock.table.logical_types import BOOLEAN

FAMILY = Family()

_MANY = ["<BOOLEAN>, <BOOLEAN>..."]
_ONE = ["<BOOLEAN>"]


@FAMILY.kernel("AND", signatures=_MANY, result=BOOLEAN)
def and_(call: Call) -> Column:
    """FALSE if any operand is; else unknown if any is."""
    return reduce(pc.and_kleene, _booleans(call))


@FAMILY.kernel("OR", signatures=_MANY, result=BOOLEAN)
def or_(call: Call) -> Column:
    """TRUE if any operand is; else unknown if any is."""
    return reduce(pc.or_kleene, _booleans(call))


def _booleans(call: Call) -> list[Column]:
    return [column.cast(pa.bool_()) for column in call.columns]


@FAMILY.kernel("NOT", signatures=_ONE, result=BOOLEAN)
def not_(call: Call) -> Column:
    """Negate."""
    return pc.invert(call.columns[0].cast(pa.bool_()))


@FAMILY.kernel("IS TRUE", signatures=_ONE, result=BOOLEAN, nullable=False)
def is_true(call: Call) -> Column:
    """Tell whether the operand is TRUE."""
    return pc.coalesce(*_booleans(call), pa.scalar(False))


@FAMILY.kernel("IS NOT TRUE", signatures=_ONE, result=BOOLEAN, nullable=False)
def is_not_true(call: Call) -> Column:
    """Tell whether the operand is FALSE or unknown."""
    return pc.invert(is_true(call))


@FAMILY.kernel("IS FALSE", signatures=_ONE, result=BOOLEAN, nullable=False)
def is_false(call: Call) -> Column:
    """Tell whether the operand is FALSE."""
    return pc.invert(is_not_false(call))


@FAMILY.kernel("IS NOT FALSE", signatures=_ONE, result=BOOLEAN, nullable=False)
def is_not_false(call: Call) -> Column:
    """Tell whether the operand is TRUE or unknown."""
    return pc.coalesce(*_booleans(call), pa.scalar(True))


@FAMILY.kernel("IS NULL", "IS UNKNOWN", signatures=["<ANY>"], result=BOOLEAN, nullable=False)
def is_null(call: Call) -> Column:
    """Tell whether the operand is NULL."""
    return pc.is_null(call.columns[0])


@FAMILY.kernel("IS NOT NULL", "IS NOT UNKNOWN", signatures=["<ANY>"], result=BOOLEAN, nullable=False)
def is_not_null(call: Call) -> Column:
    """Tell whether the operand is not NULL."""
    return pc.is_valid(call.columns[0])
