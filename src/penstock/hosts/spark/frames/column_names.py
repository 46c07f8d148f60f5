"""Columns of DataFrames while they are computed: by their own names, or by position, as c0, c1 and so on.

Names with a dot, or two that differ by case, are ambiguous for Spark. All others stay, since other names would be a
projection of each row, and Spark's plans would not be those of the same query in PySpark. The sides of a join have
aliases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LEFT_SIDE, RIGHT_SIDE = "l", "r"
"""The aliases of both sides of a join."""
_PLAIN = re.compile("[A-Za-z][A-Za-z0-9_]*")


def with_names(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return the frame with these names of columns: the same if it has them."""
    return frame if frame.columns == list(names) else frame.toDF(*names)


def inner_names(names: Sequence[str]) -> list[str]:
    """Return the names of the columns that are computed for these fields."""
    are_plain = all(map(_PLAIN.fullmatch, names)) and len({name.lower() for name in names}) == len(names)
    return list(names) if are_plain else [f"c{position}" for position in range(len(names))]


def name_of(names: Sequence[str], field: str) -> str:
    """Return the name of the column of a field. `names`: those of all fields."""
    return inner_names(names)[names.index(field)]


def column_of(names: Sequence[str], field: str, side: str | None = None) -> Column:
    """Return the column of a field; of one side of a join."""
    from pyspark.sql import functions as F  # noqa: N812

    name = name_of(names, field)
    return F.col(name if side is None else f"{side}.{name}")


def columns_of(names: Sequence[str], fields: Iterable[str]) -> list[Column]:
    """Return the columns of fields."""
    return [column_of(names, field) for field in fields]
