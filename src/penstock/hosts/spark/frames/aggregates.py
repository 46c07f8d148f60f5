"""Aggregates of DataFrames as operators compute them.

* An exact sum of LONGs is computed in two halves, so that it fails only if the result does not fit. Spark's own fails
  if a part does not fit, and is used first, because it is faster: see `part_frame.py`.
* Zero has no sign as the least or greatest number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.common.functions.field_aggregates import AVG, COUNT, FLOAT, INTEGER, MAX, MIN, SUM, FieldAggregate
from penstock.engine.plan.relations import Rolled

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

HALF_BITS = 32
_ROW = "_row"
"""A column that no field can be: see `inner_names`."""
_BITS = {"byte": 8, "short": 16, "integer": 32}


def is_sum_of_longs(field: StructField) -> bool:
    """Return whether a sum of this column may overflow. One of fewer than 2**31 integers of 32 bits does not."""
    return field.dataType.typeName() == "long"


def aggregate(one: FieldAggregate, columns: dict[str, StructField], exact: bool) -> Column:
    """Return an aggregate of fields, of which `columns` are the columns. `exact`: whether sums are."""
    from pyspark.sql import functions as F  # noqa: N812

    if one.field is None:
        return F.count(F.lit(1))
    field = columns[one.field]
    column = F.col(field.name)
    if one.kind == COUNT:
        return F.count(column)
    if one.kind == SUM:
        what = f"the sum {one.name!r} of {one.field!r}"
        return _sum(field, what, exact) if one.family == INTEGER else F.sum(column.cast("double"))
    if one.kind == AVG:
        return F.avg(column.cast("double"))
    assert one.kind in (MIN, MAX), one
    found: Column = (F.min if one.kind == MIN else F.max)(column)
    return F.when(found == 0, F.abs(found)).otherwise(found) if one.family == FLOAT else found


def rolled(frame: DataFrame, names: Sequence[str], of: Rolled, exact: bool) -> DataFrame:
    """Return for each key one of its rows with the sum, or the least or greatest value, of a field. `exact`: of sums.

    Fails where values are None and others are not, as functions of Python do. All columns that are not computed are
    those of one row, the first one of an aggregation's buffer.
    """
    from pyspark.sql import functions as F  # noqa: N812

    columns = dict(zip(names, frame.schema.fields, strict=True))
    field, keys = columns[of.field], [F.col(columns[name].name) for name in of.key_fields]
    value, count = F.col(field.name), F.count(F.lit(1))
    text = f"None cannot be added to, or compared with, another value of {of.field!r}"
    refused = F.when((count > 1) & (F.count(value) < count), F.raise_error(F.lit(text)))
    best = F.min if of.kind == MIN else F.max
    computed = _fitting_sum(field, f"the sum of {of.field!r}", exact) if of.kind == SUM else best(value)
    computed = F.coalesce(refused, computed)
    others = [one.name for name, one in columns.items() if name not in (*of.key_fields, of.field)]
    if of.whole:
        # Without the field, which is computed; and of a single row whose field is None.
        best_by, row = (F.min_by if of.kind == MIN else F.max_by), F.struct(*others, F.lit(0).alias("_any"))
        found = F.coalesce(best_by(row, value), F.first(row)).alias(_ROW)
        grouped = frame.groupBy(*keys).agg(computed.alias(field.name), found)
        others = [f"{_ROW}.{name}" for name in others]
    else:
        grouped = frame.groupBy(*keys).agg(computed.alias(field.name), *(F.first(name).alias(name) for name in others))
    place = dict(zip([name.removeprefix(f"{_ROW}.") for name in others], others, strict=True))
    return grouped.select(*(F.col(place.get(one.name, one.name)).alias(one.name) for one in columns.values()))


def _sum(field: StructField, what: str, exact: bool) -> Column:
    """Return the sum of a column as a LONG or DOUBLE. If exact, it fails if it does not fit, and names it as `what`."""
    from pyspark.sql import functions as F  # noqa: N812

    column = F.col(field.name)
    return _exact_sum(column, what) if exact and is_sum_of_longs(field) else F.sum(column)


def _fitting_sum(field: StructField, what: str, exact: bool) -> Column:
    """Return the sum of a column in its own type. It fails if it does not fit."""
    from pyspark.sql import functions as F  # noqa: N812

    total, bits = _sum(field, what, exact), _BITS.get(field.dataType.typeName())
    if bits is None:
        return total
    fits = total.isNull() | total.between(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    text = f"{what} does not fit {bits} bits"
    return F.when(fits, total.cast(field.dataType)).otherwise(F.raise_error(F.lit(text)))


def _exact_sum(number: Column, what: str) -> Column:
    """Return the sum as a LONG. The sums of upper and of lower halves fit 64 bits, of fewer than 2**31 rows."""
    from pyspark.sql import functions as F  # noqa: N812

    upper = F.sum(F.shiftright(number, HALF_BITS))
    lower = F.sum(number.bitwiseAND((1 << HALF_BITS) - 1))
    carried = upper + F.shiftright(lower, HALF_BITS)
    fits = carried.between(-(1 << (HALF_BITS - 1)), (1 << (HALF_BITS - 1)) - 1)
    total = F.shiftleft(carried, HALF_BITS).bitwiseOR(lower.bitwiseAND((1 << HALF_BITS) - 1))
    text = f"{what} does not fit 64 bits"
    return F.when(carried.isNull() | fits, total).otherwise(F.raise_error(F.lit(text)))
