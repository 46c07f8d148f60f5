"""Joins of DataFrames, where a null equals a null, as None equals None."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from penstock.common.functions.joined_fields import LEFT, JoinedField
from penstock.hosts.spark.frames.positions import column_of, renamed

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
    """Return the join `how` of two frames, with columns l0, r0 and so on. `names`: of all fields; `keys`: some."""
    left, right = renamed(frames[0], "l"), renamed(frames[1], "r")
    positions = ([of.index(field) for field in fields] for of, fields in zip(names, keys, strict=True))
    pairs = zip(*positions, strict=True)
    equal = reduce(and_, (_equal(left.schema[one], right.schema[other]) for one, other in pairs))
    return left.join(right, equal, how)


def _equal(left: StructField, right: StructField) -> Column:
    """Return whether two columns are equal, where null equals null.

    By `<=>` Spark would hash two columns for each: the value, and whether it is null. Here null has a value that no
    other row has; where each value of the type is taken, it is a value that hardly any has, and the condition tells
    them apart.
    """
    from pyspark.sql import functions as F  # noqa: N812

    one, other = F.col(left.name), F.col(right.name)
    if not (left.nullable and right.nullable):
        return one == other
    kind = left.dataType.typeName()
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
    """Return fields of both sides as columns c0, c1 and so on."""
    columns = []
    for position, one in enumerate(fields):
        prefix, of = ("l", names[0]) if one.side == LEFT else ("r", names[1])
        columns.append(column_of(prefix, of, one.field).alias(f"c{position}"))
    return columns
