"""DataFrames that compute what relations of a program mean (`engine/plan/relations.py`).

Inside, columns have names by their position, so that neither two columns that differ by case, nor a dot, nor a frame
that is joined with itself makes a name ambiguous. What Spark would do otherwise than operators:

* A null equals a null as a key of a join, as None equals None.
* A null that is to be sorted fails, as None cannot be compared.
* A sum of whole numbers is computed in two halves, so that it is exact whatever its order, and fails if the result does
  not fit. Spark's own wraps, or fails when a part does not fit.
* Zero has no sign as the least or greatest number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from penstock.common.functions.field_aggregates import AVG, COUNT, FLOAT, INTEGER, MAX, MIN, SUM, FieldAggregate
from penstock.common.functions.joined_fields import LEFT, JoinedField
from penstock.engine.plan.frame_parts import before_partitioning
from penstock.engine.plan.relations import (
    Aggregate,
    Cross,
    Distinct,
    First,
    Join,
    PartitionByRange,
    Project,
    SemiJoin,
    SortPartition,
    Union,
    relation_of,
)
from penstock.engine.plan.transformations import SourceTransformation, Transformation

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_HOW = {"INNER": "inner", "LEFT_OUTER": "left_outer", "RIGHT_OUTER": "right_outer", "FULL_OUTER": "full_outer"}
_HALF_BITS = 32


class Lowering:
    """Makes the DataFrames of streams. `parallelism`: the number of subtasks of streams that do not set their own."""

    def __init__(self, parallelism: int) -> None:
        self._parallelism = parallelism
        self._frames: dict[int, DataFrame] = {}

    def frame_of(self, stream: Transformation) -> DataFrame:
        """Return the DataFrame of a stream, with the names of its fields."""
        return self._of(stream).toDF(*names_of(stream))

    def partitions_of(self, stream: Transformation) -> int:
        """Return the number of partitions of a stream: that of its subtasks."""
        return stream.parallelism or self._parallelism

    def _of(self, stream: Transformation) -> DataFrame:
        """Return the DataFrame of a stream, with columns c0, c1 and so on."""
        stream = before_partitioning(stream)
        if stream.id not in self._frames:
            if isinstance(stream, SourceTransformation):
                frame = stream.source.frame  # type: ignore[attr-defined]
            else:
                frame = self._computed(stream)
            self._frames[stream.id] = _renamed(frame, "c")
        return self._frames[stream.id]

    def _computed(self, stream: Transformation) -> DataFrame:
        relation = relation_of(stream)
        assert relation is not None, f"{stream.name} is not a relation"
        frames = [self._of(one) for one in relation.inputs]
        names = [names_of(one) for one in relation.inputs]
        match relation:
            case Project():
                return frames[0].select(*_columns("c", names[0], relation.names))
            case Union():
                return reduce(lambda one, other: one.union(other), frames)
            case Join(keys=keys) if keys is not None:
                joined = _joined(frames, names, keys, _HOW[relation.kind.name])
                return joined.select(*_joined_fields(relation.fields, names))
            case SemiJoin(keys=keys) if keys is not None:
                return _joined(frames, names, keys, "left_anti" if relation.anti else "left_semi")
            case Cross():
                crossed = _renamed(frames[0], "l").crossJoin(_renamed(frames[1], "r"))
                return crossed.select(*_joined_fields(relation.fields, names))
            case Distinct():
                fields = names[0] if relation.fields is None else relation.fields
                return frames[0].dropDuplicates([_name("c", names[0], field) for field in fields])
            case First():
                return frames[0].limit(relation.count)
            case Aggregate():
                grouped = frames[0].groupBy(*_columns("c", names[0], relation.key_fields))
                return grouped.agg(*(_aggregate(one, names[0]) for one in relation.aggregates))
            case PartitionByRange():
                compared = _without_nulls(frames[0], names[0], relation.fields)
                by = _columns("c", names[0], relation.fields)
                return compared.repartitionByRange(self.partitions_of(stream), *by)
            case SortPartition():
                return self._sorted(stream)
        raise AssertionError(f"{relation} has no DataFrame")

    def _sorted(self, stream: Transformation) -> DataFrame:
        """Sort by the keys of several sorts in a row: operators keep the order of rows with equal keys."""
        sorts: list[SortPartition] = []
        before = stream
        while isinstance(relation := before.relation, SortPartition):
            sorts.append(relation)
            before = relation.inputs[0]
        names = names_of(before)
        frame = _without_nulls(self._of(before), names, {one.field for one in sorts})
        before_relation = relation_of(before)
        if before_relation is None or not before_relation.has_partitions:
            frame = frame.repartition(self.partitions_of(stream))
        keys = [(one.descending, _column("c", names, one.field)) for one in sorts]
        return frame.sortWithinPartitions(*(key.desc() if descending else key.asc() for descending, key in keys))


def names_of(stream: Transformation) -> tuple[str, ...]:
    """Return the names of the fields of a stream's rows."""
    return tuple(stream.output_type.get_field_names())


def _renamed(frame: DataFrame, prefix: str) -> DataFrame:
    return frame.toDF(*(f"{prefix}{position}" for position in range(len(frame.columns))))


def _name(prefix: str, names: Sequence[str], field: str) -> str:
    return f"{prefix}{names.index(field)}"


def _column(prefix: str, names: Sequence[str], field: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(_name(prefix, names, field))


def _columns(prefix: str, names: Sequence[str], fields: Iterable[str]) -> list[Column]:
    return [_column(prefix, names, field) for field in fields]


def _joined(
    frames: Sequence[DataFrame], names: Sequence[Sequence[str]], keys: Sequence[Sequence[str]], how: str
) -> DataFrame:
    left, right = (_columns(prefix, *of) for prefix, of in zip("lr", zip(names, keys, strict=True), strict=True))
    equal = reduce(and_, (one.eqNullSafe(other) for one, other in zip(left, right, strict=True)))
    return _renamed(frames[0], "l").join(_renamed(frames[1], "r"), equal, how)


def _joined_fields(fields: Iterable[JoinedField], names: Sequence[Sequence[str]]) -> list[Column]:
    columns = []
    for position, one in enumerate(fields):
        prefix, of = ("l", names[0]) if one.side == LEFT else ("r", names[1])
        columns.append(_column(prefix, of, one.field).alias(f"c{position}"))
    return columns


def _without_nulls(frame: DataFrame, names: Sequence[str], fields: Iterable[str]) -> DataFrame:
    """Return the same rows. A null in one of these fields fails the job: None has no place in an order."""
    from pyspark.sql import functions as F  # noqa: N812

    checked = {}
    for field in fields:
        text = f"None is not comparable with other values: a record without {field!r} cannot be sorted by it"
        name = _name("c", names, field)
        checked[name] = F.coalesce(F.col(name), F.raise_error(F.lit(text)))
    return frame.select(*(checked[name].alias(name) if name in checked else F.col(name) for name in frame.columns))


def _aggregate(one: FieldAggregate, names: Sequence[str]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    if one.field is None:
        return F.count(F.lit(1))
    column = _column("c", names, one.field)
    if one.kind == COUNT:
        return F.count(column)
    if one.kind == SUM:
        return _exact_sum(column, one) if one.family == INTEGER else F.sum(column.cast("double"))
    if one.kind == AVG:
        return F.avg(column.cast("double"))
    assert one.kind in (MIN, MAX), one
    found: Column = (F.min if one.kind == MIN else F.max)(column)
    return F.when(found == 0, F.abs(found)).otherwise(found) if one.family == FLOAT else found


def _exact_sum(column: Column, one: FieldAggregate) -> Column:
    """Return the sum as a LONG. The sums of upper and of lower halves fit 64 bits, of fewer than 2**31 rows."""
    from pyspark.sql import functions as F  # noqa: N812

    number = column.cast("long")
    upper = F.sum(F.shiftright(number, _HALF_BITS))
    lower = F.sum(number.bitwiseAND((1 << _HALF_BITS) - 1))
    carried = upper + F.shiftright(lower, _HALF_BITS)
    fits = carried.between(-(1 << (_HALF_BITS - 1)), (1 << (_HALF_BITS - 1)) - 1)
    total = F.shiftleft(carried, _HALF_BITS).bitwiseOR(lower.bitwiseAND((1 << _HALF_BITS) - 1))
    text = f"the sum {one.name!r} of {one.field!r} does not fit 64 bits"
    return F.when(carried.isNull() | fits, total).otherwise(F.raise_error(F.lit(text)))
