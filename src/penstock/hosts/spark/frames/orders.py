"""Orders of DataFrames, in which a null has no place: None cannot be compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.engine.plan.relations import SortGroups
from penstock.hosts.spark.frames.column_names import column_of, columns_of, name_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def without_nulls(frame: DataFrame, names: Sequence[str], fields: Iterable[str]) -> DataFrame:
    """Return the same rows. A null in one of these fields fails the job: None has no place in an order."""
    from pyspark.sql import functions as F  # noqa: N812

    for field in fields:
        name = name_of(names, field)
        frame = _with_column(frame, name, F.coalesce(F.col(name), _no_place(field)))
    return frame


def _no_place(field: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    text = f"None is not comparable with other values: a record without {field!r} cannot be sorted by it"
    return F.raise_error(F.lit(text))


def _with_column(frame: DataFrame, name: str, column: Column) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return frame.select(*(column.alias(name) if one == name else F.col(one) for one in frame.columns))


def sorted_groups(frame: DataFrame, names: Sequence[str], of: SortGroups, partitions: int) -> DataFrame:
    """Bring the rows of each key together in so many partitions, and sort them. Nulls among other rows fail."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    keys, field = columns_of(names, of.key_fields), column_of(names, of.field)
    # A None by itself need not be compared.
    compared = F.count(F.lit(1)).over(Window.partitionBy(*keys)) > 1
    sorted_field = F.when(field.isNull() & compared, _no_place(of.field)).otherwise(field)
    checked = _with_column(frame.repartition(partitions, *keys), name_of(names, of.field), sorted_field)
    return checked.sortWithinPartitions(*keys, field.desc() if of.descending else field.asc())
