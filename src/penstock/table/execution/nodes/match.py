"""Match: MATCH_RECOGNIZE."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import Transformation
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.planner.nodes.match_nodes import Match


@translates(Match)
def match(translation: Translation, node: Match, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a Match."""
    # Imported here: automata take a tenth of a second of a start, and few queries have a pattern.
    from penstock.table.execution.match_translation import translated_match

    return translated_match(translation, node, inputs)
