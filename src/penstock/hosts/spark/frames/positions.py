"""Columns of DataFrames by position: c0, c1 and so on; l0, r0 for both sides of a join.

So neither two columns that differ by case, nor a dot, nor a frame that is joined with itself makes a name ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def renamed(frame: DataFrame, prefix: str) -> DataFrame:
    """Return the frame with such names."""
    return frame.toDF(*(f"{prefix}{position}" for position in range(len(frame.columns))))


def name_of(prefix: str, names: Sequence[str], field: str) -> str:
    """Return the name of a field. `names`: those of all fields."""
    return f"{prefix}{names.index(field)}"


def column_of(prefix: str, names: Sequence[str], field: str) -> Column:
    """Return the column of a field."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(name_of(prefix, names, field))


def columns_of(prefix: str, names: Sequence[str], fields: Iterable[str]) -> list[Column]:
    """Return the columns of fields."""
    return [column_of(prefix, names, field) for field in fields]
