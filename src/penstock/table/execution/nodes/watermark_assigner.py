"""WatermarkAssigner."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import Transformation
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.operators.sources.watermarks import WatermarkOperator
from penstock.table.planner.data_types import DataType
from penstock.table.planner.nodes.row_nodes import WatermarkAssigner
from penstock.table.planner.rex_nodes import RexInputRef


@translates(WatermarkAssigner)
def watermark_assigner(
    translation: Translation, node: WatermarkAssigner, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate a WatermarkAssigner."""
    rowtime = RexInputRef(
        index=node.rowtime_field_index, type=DataType(node.output_type.fields[node.rowtime_field_index])
    )
    operator = WatermarkOperator(
        "WatermarkAssigner",
        translation.expressions(node.watermark_expr, rowtime),
        columns=translation.columns(node),
        interval_ms=translation.watermark_interval_ms,
        is_read=translation.reads_watermark,
    )
    return translation.operator(node, operator, inputs)
