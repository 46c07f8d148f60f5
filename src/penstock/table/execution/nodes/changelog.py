"""ChangelogNormalize."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import Transformation
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.operators.grouping.changelog_normalize import ChangelogNormalizeOperator
from penstock.table.planner.nodes.row_nodes import ChangelogNormalize


@translates(ChangelogNormalize)
def changelog_normalize(
    translation: Translation, node: ChangelogNormalize, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate a ChangelogNormalize."""
    received = translation.input(node)
    operator = ChangelogNormalizeOperator(
        "ChangelogNormalize",
        [received.names[key] for key in node.unique_keys],
        translation.condition(node.filter_condition),
        columns=received,
        update_before=node.generate_update_before,
        ttl_ms=translation.ttl_ms(node),
    )
    return translation.operator(node, operator, inputs)
