"""Errors of loops without supersteps that only the whole program shows."""

from __future__ import annotations

from penstock.common.errors import ProgramError
from penstock.engine.plan.regions import loops_of
from penstock.engine.plan.stream_graph import StreamGraph
from penstock.engine.plan.transformations import FeedbackTransformation


def check_loops(graph: StreamGraph) -> None:
    """Raise ProgramError for a loop whose feedback waits for the end of a stream of the loop.

    That stream ends with the loop: then nothing is fed back any more. Behind the loop such an operation is right, and
    in it, too, if it waits only for a stream from outside.
    """
    heads = {id for id, node in graph.nodes.items() if type(node.transformation) is FeedbackTransformation}
    if not heads:
        return
    for loop in loops_of(graph.nodes, [(edge.source, edge.target) for edge in graph.edges]):
        if heads.isdisjoint(loop):
            continue
        for edge in graph.edges:
            node = graph.nodes[edge.target]
            if edge.source in loop and edge.target in loop and node.operator.awaits_end_of(edge.input_index):
                raise ProgramError(
                    f"'{node.name}' has its results when its whole input has ended, but is in a loop of iterate(), "
                    "whose streams end with the loop: the rounds behind it would be lost. Place it behind the loop, or "
                    "let it wait only for a stream from outside; for a result in each round use "
                    "penstock.iteration.iterate with window(superstep_windows())"
                )
