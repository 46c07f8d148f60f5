"""Adds a source that gives batches, which sources of the DataStream API do only where the plan asks for columns."""

from __future__ import annotations

from typing import Any

from penstock.api.source import Source
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.values.shallow_copy import shallow_copy
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.engine.plan.transformations import DeployedTransformation, SourceTransformation
from penstock.engine.runtime.columns.event_time import ColumnSourceOperator


class ColumnSourceTransformation(SourceTransformation):
    """A source of batches of `columns`, without event time."""

    def __init__(
        self, id: int, name: str, source: Source[Any], *, columns: RecordColumns, parallelism: int | None
    ) -> None:
        of_driver = shallow_copy(source, copy_containers=True)
        operator = ColumnSourceOperator(
            name, of_driver, WatermarkStrategy.no_watermarks(), interval_ms=0, columns=columns
        )
        operator.given = source
        DeployedTransformation.__init__(
            self, id, name, inputs=[], operator=operator, output_type=None, parallelism=parallelism
        )
