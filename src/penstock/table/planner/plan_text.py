"""A compiled plan as text: nodes below those that read them, as EXPLAIN shows Flink's."""

from __future__ import annotations

from penstock.table.planner.compiled_plan import CompiledPlan
from penstock.table.planner.nodes.base import ExecNode


def plan_text(plan: CompiledPlan) -> str:
    """Return the tree of each sink."""
    trees = ["\n".join(_lines(plan, sink, "", "")) for sink in plan.sinks]
    return "== Optimized Execution Plan ==\n" + "\n\n".join(trees) + "\n"


def _lines(plan: CompiledPlan, node: ExecNode, first: str, others: str) -> list[str]:
    lines = [first + node.description]
    inputs = plan.inputs_of(node)
    for place, one in enumerate(inputs):
        is_last = place == len(inputs) - 1
        lines += _lines(plan, one, others + ("+- " if is_last else ":- "), others + ("   " if is_last else ":  "))
    return lines
