"""CASE, IF, COALESCE, IFNULL, NULLIF, GREATEST and LEAST. All branches are computed for all rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions.casts import cast
from penstock.table.functions.columns import Column, is_constant, nulls_of, per_row
from penstock.table.functions.common_types import common_type
from penstock.table.functions.comparison import comparable, compare
from penstock.table.functions.errors import InvalidCallError
from penstock.table.functions.registry import Arguments, Call, Family
from penstock.table.functions.signatures import COMPARABLE
from penstock.table.logical_types import STRING, LogicalType

FAMILY = Family()


def common(types: Sequence[LogicalType]) -> LogicalType:
    """Return the type in common. Raises InvalidCallError if there is none."""
    found = common_type(types)
    if found is None:
        raise InvalidCallError(f"Could not find a common type for arguments: [{', '.join(map(str, types))}]")
    return found


def _converted(call: Call, indexes: Sequence[int]) -> list[Column]:
    """Return arguments as values of the type of the result."""
    return [cast(call.columns[index], call.types[index], call.result, call.context.zone) for index in indexes]


def _values_of(count: int) -> list[int]:
    """Return the indexes of the results in CASE condition, result, ..., otherwise."""
    return [*range(1, count - 1, 2), count - 1]


def _case_type(arguments: Arguments) -> LogicalType:
    types = arguments.types
    if len(types) % 2 == 0 or any(
        types[index].root not in ("BOOLEAN", "NULL") for index in range(0, len(types) - 1, 2)
    ):
        raise InvalidCallError("CASE: expected pairs of a BOOLEAN condition and a value, and a last value")
    return common([types[index] for index in _values_of(len(types))])


@FAMILY.kernel(
    "CASE", signatures=["<BOOLEAN>, <ANY>, <ANY>..."],
    result=_case_type,
)  # fmt: skip
def case(call: Call) -> Column:
    """Return the value after the first condition that is true, else the last argument."""
    values = _converted(call, _values_of(len(call.columns)))
    conditions = [call.columns[index] for index in range(0, len(call.columns) - 1, 2)]
    result = values[-1]
    for condition, value in zip(reversed(conditions), reversed(values[:-1]), strict=True):
        result = _if(condition, value, result)
    return result


@FAMILY.kernel("IF", signatures=["<BOOLEAN>, <ANY>, <ANY>"], result=lambda one: common(one.types[1:]))
def if_(call: Call) -> Column:
    """Return the second argument if the first is true, else the third."""
    return _if(call.columns[0], *_converted(call, (1, 2)))


def _if(condition: Column, value: Column, otherwise: Column) -> Column:
    if is_constant(condition) or condition.null_count or not pa.types.is_boolean(condition.type):
        condition = pc.coalesce(condition.cast(pa.bool_()), pa.scalar(False))
    if pa.types.is_map(value.type):
        return per_row(
            lambda test, one, other: one if test else other, [condition, value, otherwise], value.type, nulls=True
        )
    if is_constant(condition):
        return value if condition.as_py() else otherwise
    # Often all rows of a chunk are of one kind: behind a filter, or because they are few.
    if not condition.true_count and not is_constant(otherwise):
        return otherwise
    if condition.true_count == len(condition) and not is_constant(value):
        return value
    return pc.if_else(condition, value, otherwise)


def _coalesced(arguments: Arguments) -> LogicalType:
    return common(arguments.types).with_nullability(all(one.nullable for one in arguments.types))


@FAMILY.kernel("COALESCE", signatures=["<COMMON>, <COMMON>..."], result=_coalesced)
@FAMILY.kernel("IFNULL", signatures=["<COMMON>, <COMMON>"], result=_coalesced)
def coalesce(call: Call) -> Column:
    """Return the first argument that is not NULL."""
    columns = _converted(call, range(len(call.columns)))
    if any(one.children for one in call.types):
        return per_row(
            lambda *values: next((one for one in values if one is not None), None), columns, call.arrow_type, nulls=True
        )
    return pc.coalesce(*columns)


def _first_type(arguments: Arguments) -> LogicalType:
    comparable(*arguments.types)
    return arguments.types[0]


@FAMILY.kernel("NULLIF", signatures=["<ANY>, <ANY>"], result=_first_type, nullable=True)
def nullif(call: Call) -> Column:
    """Return the first argument, NULL if it equals the second."""
    equal = compare(call, pc.equal, lambda x, y: x == y)
    return _if(equal, pa.scalar(None, call.arrow_type), call.columns[0])


def _extreme(arguments: Arguments) -> LogicalType:
    found = common(arguments.types)
    if found.root not in COMPARABLE:
        raise InvalidCallError(f"values of the type {found} have no order")
    return found


@FAMILY.kernel("GREATEST", signatures=["<ANY>..."], result=_extreme)
def greatest(call: Call) -> Column:
    """Return the greatest argument, NULL if any is NULL."""
    return _pick(call, pc.greater_equal)


@FAMILY.kernel("LEAST", signatures=["<ANY>..."], result=_extreme)
def least(call: Call) -> Column:
    """Return the least argument, NULL if any is NULL."""
    return _pick(call, pc.less_equal)


def _pick(call: Call, better: Any) -> Column:
    columns = _converted(call, range(len(call.columns)))
    found = reduce(lambda one, other: pc.if_else(better(one, other), one, other), columns)
    return pc.if_else(nulls_of(columns), pa.scalar(None, found.type), found)


def _type_text(arguments: Arguments) -> LogicalType:
    if len(arguments.types) == 2 and arguments.literal(1) is not True:
        raise InvalidCallError("the second argument must be the literal TRUE")
    return STRING


@FAMILY.kernel("TYPEOF", signatures=["<ANY>", "<ANY>, <BOOLEAN>"], result=_type_text)
def type_of(call: Call) -> Column:
    """Return the type of the argument."""
    text = pa.scalar(str(call.types[0]))
    return text if is_constant(call.columns[0]) else pa.repeat(text, len(call.columns[0]))
