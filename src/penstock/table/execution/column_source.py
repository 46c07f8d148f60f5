"""Adds a source that gives batches, which sources of the DataStream API do only where the plan asks for columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.api.source import Source
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.values.shallow_copy import shallow_copy
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.engine.plan.transformations import DeployedTransformation, SourceTransformation
from penstock.engine.runtime.columns.event_time import ColumnSourceOperator
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.operators.sources.scan import Path
from penstock.table.operators.sources.table_source import TableSourceOperator


class SplitWatermarks(NamedTuple):
    """Watermarks of each split: their expression over the columns at `paths`.

    `with_each_chunk`: emit them behind each chunk, and not only at each interval.
    """

    strategy: WatermarkStrategy
    interval_ms: int
    expression: RowExpressions
    paths: Sequence[Path]
    with_each_chunk: bool = False


class ColumnSourceTransformation(SourceTransformation):
    """A source of batches of `columns`, without event time, or with that of `watermarks`, for each split."""

    def __init__(
        self,
        id: int,
        name: str,
        source: Source[Any],
        *,
        columns: RecordColumns,
        parallelism: int | None,
        watermarks: SplitWatermarks | None = None,
    ) -> None:
        of_driver = shallow_copy(source, copy_containers=True)
        operator = (
            ColumnSourceOperator(name, of_driver, WatermarkStrategy.no_watermarks(), interval_ms=0, columns=columns)
            if watermarks is None
            else TableSourceOperator(
                name,
                of_driver,
                watermarks.strategy,
                watermarks.interval_ms,
                columns=columns,
                watermark=watermarks.expression,
                paths=watermarks.paths,
                with_each_chunk=watermarks.with_each_chunk,
            )
        )
        operator.given = source
        DeployedTransformation.__init__(
            self, id, name, inputs=[], operator=operator, output_type=None, parallelism=parallelism
        )
