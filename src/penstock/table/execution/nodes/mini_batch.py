"""MiniBatchAssigner."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import Transformation
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.operators.grouping.mini_batch import EventTimeBundlesOperator, ProcessingTimeBundlesOperator
from penstock.table.planner.nodes.row_nodes import MiniBatchAssigner


@translates(MiniBatchAssigner)
def mini_batch_assigner(
    translation: Translation, node: MiniBatchAssigner, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate a MiniBatchAssigner."""
    interval, columns = node.mini_batch_interval, translation.input(node)
    translation.gives(node, columns)
    operator: Operator
    if interval.mode == "ProcTime":
        operator = ProcessingTimeBundlesOperator("MiniBatchAssigner", columns=columns, interval_ms=interval.interval)
    elif interval.mode == "RowTime":
        operator = EventTimeBundlesOperator("MiniBatchAssigner", columns=columns, interval_ms=interval.interval)
    else:
        raise translation.unsupported(f"mini-batches of the mode {interval.mode} are not supported")
    return translation.operator(node, operator, inputs)
