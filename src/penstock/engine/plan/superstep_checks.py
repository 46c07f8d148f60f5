"""Errors of structured iterations that only the whole program shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.common.errors import ProgramError
from penstock.engine.plan.regions import loops_of
from penstock.engine.plan.transformations import SuperstepsTransformation
from penstock.engine.runtime.operators.superstep_head import RESULT

if TYPE_CHECKING:
    from penstock.engine.plan.stream_graph import StreamEdge, StreamNode


def check_structured_iterations(nodes: Mapping[int, StreamNode], edges: Sequence[StreamEdge]) -> None:
    """Raise ProgramError if a head waits for its own iteration, or gets feedback that has no supersteps."""
    heads = {id for id, node in nodes.items() if isinstance(node.transformation, SuperstepsTransformation)}
    if not heads:
        return
    loops = loops_of(nodes, [(edge.source, edge.target) for edge in edges])
    for loop in loops:
        for edge in edges:
            inside = edge.source in loop and edge.target in loop
            if inside and edge.target in heads and not edge.feedback:
                raise ProgramError(
                    f"'{nodes[edge.target].name}' begins within another iteration: its input ends when that iteration "
                    "has ended, which waits for it. Structured iterations are not nested; let the inner one be a step "
                    "of the outer one, or begin it with the result of close_with()"
                )
            if inside and edge.source in heads and edge.tag == RESULT:
                raise ProgramError(
                    f"the result of '{nodes[edge.source].name}' is there when it has ended, but "
                    f"'{nodes[edge.target].name}' uses it in its supersteps"
                )
    for edge in edges:
        is_inside = any(edge.source in loop and edge.target in loop for loop in loops)
        if edge.role is not None and not is_inside:
            raise ProgramError(
                f"'{nodes[edge.source].name}' is fed back to '{nodes[edge.target].name}', but does not come from that "
                "iteration, so it has no supersteps"
            )
