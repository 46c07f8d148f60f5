"""DataFrames that compute what relations of a program mean (`engine/plan/relations.py`).

Inside, columns with ambiguous names have others (`column_names.py`). What Spark would do otherwise than operators is in
`joins.py`, `orders.py`, `aggregates.py` and `function_calls.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.field_aggregates import SUM
from penstock.engine.plan.frame_parts import FrameParts, before_partitioning
from penstock.engine.plan.function_chains import function_chain
from penstock.engine.plan.relations import (
    Aggregate,
    Cross,
    Distinct,
    First,
    Join,
    PartitionByRange,
    Project,
    Rolled,
    SemiJoin,
    SortGroups,
    SortPartition,
    Union,
    relation_of,
)
from penstock.engine.plan.transformations import SourceTransformation, Transformation
from penstock.engine.runtime.task.detached_chain import DetachedOperator
from penstock.hosts.spark.frames.aggregates import aggregate, is_sum_of_longs, rolled
from penstock.hosts.spark.frames.column_names import column_of, columns_of, inner_names, name_of, with_names
from penstock.hosts.spark.frames.function_calls import FunctionCalls
from penstock.hosts.spark.frames.joins import joined, joined_fields, sides
from penstock.hosts.spark.frames.orders import sorted_groups, without_nulls
from penstock.hosts.spark.frames.part_frame import PartFrame, checked_sums
from penstock.hosts.spark.payload import Payload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

_HOW = {"INNER": "inner", "LEFT_OUTER": "left_outer", "RIGHT_OUTER": "right_outer", "FULL_OUTER": "full_outer"}


class Lowering:
    """Makes the DataFrames of parts of a program.

    `parallelism`: the number of subtasks of streams that do not set their own. `payload`: returns what workers need to
    import functions. `read`: returns the DataFrame of a source. `exact`: whether all sums are exact; else those that
    need no function, which would be called again, are Spark's own.
    """

    def __init__(
        self,
        parts: FrameParts,
        parallelism: int,
        *,
        payload: Callable[[], Payload],
        read: Callable[[SourceTransformation], DataFrame],
        exact: bool = False,
    ) -> None:
        self._parts = parts
        self._timed = parts.timed
        self._parallelism = parallelism
        self._payload = payload
        self._is_exact = exact
        self._has_plain_sums = False
        self._read = read
        self._frames: dict[int, DataFrame] = {}

    def part_of(self, stream: Transformation) -> PartFrame:
        """Return the DataFrame of a stream, with the names of its fields."""
        frame = with_names(self._of(stream), names_of(stream))
        return PartFrame(frame, (lambda: self._exact.part_of(stream).frame) if self._has_plain_sums else None)

    @cached_property
    def _exact(self) -> Lowering:
        return Lowering(self._parts, self._parallelism, payload=self._payload, read=self._read, exact=True)

    def partitions_of(self, stream: Transformation) -> int:
        """Return the number of partitions of a stream: that of its subtasks."""
        return stream.parallelism or self._parallelism

    def _of(self, stream: Transformation) -> DataFrame:
        """Return the DataFrame of a stream, whose columns have inner names."""
        stream = before_partitioning(stream)
        if stream.id not in self._frames:
            frame = self._read(stream) if isinstance(stream, SourceTransformation) else self._computed(stream)
            self._frames[stream.id] = with_names(frame, inner_names(names_of(stream)))
        return self._frames[stream.id]

    def _computed(self, stream: Transformation) -> DataFrame:
        relation = relation_of(stream)
        assert relation is not None, f"{stream.name} is not a relation"
        if relation.calls:
            return self._called(stream)
        frames = [self._of(one) for one in relation.inputs]
        names = [names_of(one) for one in relation.inputs]
        match relation:
            case Project():
                return frames[0].select(*columns_of(names[0], relation.names))
            case Union():
                return reduce(lambda one, other: one.union(other), frames)
            case Join(keys=keys) if keys is not None:
                pairs = joined(frames, names, keys, _HOW[relation.kind.name])
                return pairs.select(*joined_fields(relation.fields, names))
            case SemiJoin(keys=keys) if keys is not None:
                return joined(frames, names, keys, "left_anti" if relation.anti else "left_semi")
            case Cross():
                left, right = sides(frames)
                return left.crossJoin(right).select(*joined_fields(relation.fields, names))
            case Distinct():
                fields = names[0] if relation.fields is None else relation.fields
                return frames[0].dropDuplicates([name_of(names[0], field) for field in fields])
            case First():
                return frames[0].limit(relation.count)
            case Aggregate():
                grouped = frames[0].groupBy(*columns_of(names[0], relation.key_fields))
                columns = dict(zip(names[0], frames[0].schema.fields, strict=True))
                sums = [columns[one.field] for one in relation.aggregates if one.kind == SUM and one.field]
                with self._sums(stream, frames[0], sums) as exact:
                    return grouped.agg(*(aggregate(one, columns, exact) for one in relation.aggregates))
            case Rolled():
                sums = [frames[0].schema[names[0].index(relation.field)]] if relation.kind == SUM else []
                with self._sums(stream, frames[0], sums) as exact:
                    return rolled(frames[0], names[0], relation, exact)
            case PartitionByRange():
                compared = without_nulls(frames[0], names[0], relation.fields)
                by = columns_of(names[0], relation.fields)
                return compared.repartitionByRange(self.partitions_of(stream), *by)
            case SortPartition():
                return self._sorted(stream)
            case SortGroups():
                return sorted_groups(frames[0], names[0], relation, self.partitions_of(stream))
        raise AssertionError(f"{relation} has no DataFrame")

    @contextlib.contextmanager
    def _sums(self, stream: Transformation, frame: DataFrame, columns: Sequence[StructField]) -> Iterator[bool]:
        """Give whether the sums of these columns of the frame, which are declared in the block, have to be exact."""
        if self._is_exact or stream.id in self._parts.calling or not any(map(is_sum_of_longs, columns)):
            yield True
            return
        self._has_plain_sums = True
        with checked_sums(frame.sparkSession):
            yield False

    def _called(self, stream: Transformation) -> DataFrame:
        """Call the functions that follow each other in one pass, for groups of rows that are sorted by key."""
        chain = function_chain(stream, self._timed)
        before = chain.before
        frame = self._combined(before, chain.combiner) if chain.combiner else self._of(before)
        if chain.key_fields:
            keys = columns_of(names_of(before), chain.key_fields)
            frame = frame.repartition(*keys).sortWithinPartitions(*keys)
        return self._mapped(frame, chain.operators, before=before, end=stream)

    def _combined(self, stream: Transformation, combiner: Sequence[DetachedOperator]) -> DataFrame:
        """Reduce the rows of each key of a partition, in one pass with the functions before."""
        chain = function_chain(stream, self._timed)
        if not chain.operators or chain.key_fields:
            return self._mapped(self._of(stream), combiner, before=stream, end=stream)
        frame = self._of(chain.before)
        return self._mapped(frame, [*chain.operators, *combiner], before=chain.before, end=stream)

    def _mapped(
        self, frame: DataFrame, chain: Sequence[DetachedOperator], *, before: Transformation, end: Transformation
    ) -> DataFrame:
        """Call functions for the rows of `before`, whose results have the columns of `end`."""
        calls = FunctionCalls(
            self._payload(),
            chain,
            received=RecordColumns(before.output_type),
            given=RecordColumns(end.output_type),
            timed=before.id in self._timed,
            parallelism=self.partitions_of(end),
        )
        return calls.of(frame)

    def _sorted(self, stream: Transformation) -> DataFrame:
        """Sort by the keys of several sorts in a row: operators keep the order of rows with equal keys."""
        sorts: list[SortPartition] = []
        before = stream
        while isinstance(relation := before.relation, SortPartition):
            sorts.append(relation)
            before = relation.inputs[0]
        names = names_of(before)
        frame = without_nulls(self._of(before), names, {one.field for one in sorts})
        before_relation = relation_of(before)
        if before_relation is None or not before_relation.has_partitions:
            frame = frame.repartition(self.partitions_of(stream))
        keys = [(one.descending, column_of(names, one.field)) for one in sorts]
        return frame.sortWithinPartitions(*(key.desc() if descending else key.asc() for descending, key in keys))


def names_of(stream: Transformation) -> tuple[str, ...]:
    """Return the names of the fields of a stream's rows."""
    return tuple(stream.output_type.get_field_names())
