"""Joins of DataFrames, where a null equals a null, as None equals None."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from penstock.common.functions.joined_fields import LEFT, JoinedField
from penstock.hosts.spark.frames.column_names import LEFT_SIDE, RIGHT_SIDE, column_of, inner_names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

_FAR = 1 << 32
"""A LONG that no value of a narrow type is."""
_NARROW = ("byte", "short", "integer", "boolean")
_RARE = {"long": -0x3_59E1_4D2B_6F08, "string": "\0null\0", "binary": b"\0null\0"}
"""Values that hardly any row has, in place of null."""


def joined(
    frames: Sequence[DataFrame], names: Sequence[Sequence[str]], keys: Sequence[Sequence[str]], how: str
) -> DataFrame:
    """Return the join `how` of two frames, as sides with aliases. `names`: of all fields; `keys`: some."""
    left, right = sides(frames)
    equal = reduce(
        and_,
        (
            _equal(
                (column_of(names[0], one, LEFT_SIDE), frames[0].schema[names[0].index(one)]),
                (column_of(names[1], other, RIGHT_SIDE), frames[1].schema[names[1].index(other)]),
            )
            for one, other in zip(*keys, strict=True)
        ),
    )
    return left.join(right, equal, how)


def sides(frames: Sequence[DataFrame]) -> tuple[DataFrame, DataFrame]:
    """Return two frames as the sides of a join."""
    return frames[0].alias(LEFT_SIDE), frames[1].alias(RIGHT_SIDE)


def _equal(left: tuple[Column, StructField], right: tuple[Column, StructField]) -> Column:
    """Return whether two columns, with what is known of them, are equal, where null equals null.

    By `<=>` Spark would hash two columns for each: the value, and whether it is null. Here null has a value that no
    other row has; where each value of the type is taken, it is a value that hardly any has, and the condition tells
    them apart.
    """
    from pyspark.sql import functions as F  # noqa: N812

    (one, field), (other, other_field) = left, right
    if not (field.nullable and other_field.nullable):
        return one == other
    kind = field.dataType.typeName()
    if kind in _NARROW:
        instead = F.lit(_FAR)
        return F.coalesce(one.cast("long"), instead) == F.coalesce(other.cast("long"), instead)
    if kind not in _RARE:
        return one.eqNullSafe(other)
    instead = F.lit(_RARE[kind])
    same = F.coalesce(one, instead) == F.coalesce(other, instead)
    # Not an equation, which would be hashed as well.
    return same & (one.isNull() | other.isNotNull()) & (one.isNotNull() | other.isNull())


def joined_fields(fields: Iterable[JoinedField], names: Sequence[Sequence[str]]) -> list[Column]:
    """Return fields of both sides, by the inner names of the results."""
    fields = list(fields)
    results = inner_names([one.name for one in fields])
    columns = []
    for one, result in zip(fields, results, strict=True):
        side, of = (LEFT_SIDE, names[0]) if one.side == LEFT else (RIGHT_SIDE, names[1])
        columns.append(column_of(of, one.field, side).alias(result))
    return columns
