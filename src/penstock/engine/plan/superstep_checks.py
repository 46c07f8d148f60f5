"""Errors of structured iterations that only the whole program shows."""

from __future__ import annotations

from penstock.api.source import Boundedness
from penstock.common.errors import ProgramError
from penstock.engine.plan.regions import loops_of, reached
from penstock.engine.plan.stream_graph import StreamEdge, StreamGraph
from penstock.engine.plan.transformations import (
    FeedbackTransformation,
    SourceTransformation,
    SuperstepsTransformation,
)
from penstock.engine.runtime.network.edge import FeedbackRole
from penstock.engine.runtime.operators.superstep_head import RESULT, SuperstepHead
from penstock.engine.runtime.operators.superstep_listening import SuperstepListening, is_listener
from penstock.engine.runtime.operators.timestamps import TimestampsAndWatermarksOperator


def check_structured_iterations(graph: StreamGraph) -> None:
    """Raise ProgramError for an iteration whose supersteps could not end.

    Its head waits for the iteration itself, or for an unbounded source, or gets feedback that has no supersteps.
    """
    heads = {id for id, node in graph.nodes.items() if isinstance(node.transformation, SuperstepsTransformation)}
    if not heads:
        return
    loops = loops_of(graph.nodes, [(edge.source, edge.target) for edge in graph.edges])
    for loop in loops:
        if not heads.isdisjoint(loop):
            for edge in graph.edges:
                if edge.target in loop:
                    _check_edge(graph, edge, loop, heads)
            _check_loop(graph, loop)
            _check_ends(graph, loop)
    _check_listeners(graph, heads, {node for loop in loops if not heads.isdisjoint(loop) for node in loop})
    for edge in graph.edges:
        is_inside = any(edge.source in loop and edge.target in loop for loop in loops)
        if edge.role is not None and not is_inside:
            raise ProgramError(
                f"'{graph.nodes[edge.source].name}' is fed back to '{graph.nodes[edge.target].name}', but does not "
                "come from that iteration, so it has no supersteps"
            )


def _check_loop(graph: StreamGraph, loop: frozenset[int]) -> None:
    """Raise ProgramError if a loop has more than one iteration, or an operator that changes event time."""
    iterations: dict[int, str] = {}
    for node in [graph.nodes[id] for id in sorted(loop)]:
        transformation = node.transformation
        if isinstance(transformation, SuperstepsTransformation):
            iterations.setdefault(transformation.iteration, node.name)
        elif isinstance(transformation, FeedbackTransformation):
            raise ProgramError(
                f"'{node.name}', which has no supersteps, is in a structured iteration: a superstep would end while "
                "records go round there. Make it a variable of Iterations, or place it before or behind"
            )
        elif isinstance(node.operator, TimestampsAndWatermarksOperator):
            raise ProgramError(
                f"'{node.name}' assigns timestamps and watermarks in a structured iteration, where event time is the "
                "number of the superstep: assign them behind it, and keep times in fields of the records"
            )
    if len(iterations) > 1:
        raise ProgramError(
            f"the iterations {', '.join(map(repr, iterations.values()))} feed each other, but each decides by itself "
            "when it ends: use Iterations.iterate_bounded_streams_until_termination, with several variables"
        )


def _check_ends(graph: StreamGraph, loop: frozenset[int]) -> None:
    """Raise ProgramError if what is fed back waits for the end of a stream that ends with the iteration."""
    inside = [edge for edge in graph.edges if edge.source in loop and edge.target in loop]
    before: dict[int, list[int]] = {}
    for edge in inside:
        if not edge.feedback:
            before.setdefault(edge.target, []).append(edge.source)
    fed_back = {edge.source for edge in inside if edge.feedback and edge.role is not FeedbackRole.ENDS}
    leads_back = fed_back.union(*(reached(node, before) for node in fed_back))
    for edge in inside:
        if edge.target in leads_back and graph.nodes[edge.target].operator.awaits_end_of(edge.input_index):
            raise ProgramError(
                f"'{graph.nodes[edge.target].name}' has its results when its whole input has ended, but is in a "
                "structured iteration, whose streams end with it: nothing would be fed back. For the records of one "
                "superstep use window(superstep_windows()), as in join(…).where(…).equal_to(…).window(…) and "
                "key_by(…).window(…), or with_broadcast_set()"
            )


def _check_edge(graph: StreamGraph, edge: StreamEdge, loop: frozenset[int], heads: set[int]) -> None:
    source, target = graph.nodes[edge.source].name, graph.nodes[edge.target].name
    if edge.source not in loop:
        operator = graph.nodes[edge.target].operator
        if isinstance(operator, SuperstepHead) and operator.is_unbounded:
            return
        unbounded = _unbounded_source(graph, edge.source)
        if unbounded is not None:
            raise ProgramError(
                f"'{target}' is in a structured iteration, but reads the source '{unbounded}', which is unbounded: "
                "superstep 0 would never end. Use what enter(stream) of the iteration's stream returns, or a bounded "
                "source"
            )
    elif edge.target in heads and not edge.feedback:
        raise ProgramError(
            f"'{target}' begins within another iteration: its input ends when that iteration has ended, which waits "
            "for it. Structured iterations are not nested: begin it with the result of close_with(), or make its "
            "supersteps those of the outer iteration"
        )
    elif edge.source in heads and edge.tag == RESULT:
        raise ProgramError(
            f"the result of '{source}' is there when it has ended, but '{target}' uses it in its supersteps: use the "
            "stream that iterate() has returned, which is the workset of each superstep"
        )


def _check_listeners(graph: StreamGraph, heads: set[int], inside: set[int]) -> None:
    """Raise ProgramError for a listener that would never be called."""
    after: dict[int, list[int]] = {}
    for edge in graph.edges:
        if edge.tag != RESULT:
            after.setdefault(edge.source, []).append(edge.target)
    for id in set().union(*(reached(head, after) for head in heads)):
        node = graph.nodes[id]
        listens = any(is_listener(place.function.users_object) for place in node.operator.function_places())
        if listens and id not in inside:
            raise ProgramError(
                f"'{node.name}' has an IterationListener, but nothing that it emits is fed back, so it is not in the "
                "iteration: add the stream to the outputs of close_with()"
            )
        if listens and not isinstance(node.operator, SuperstepListening):
            raise ProgramError(
                f"the function of '{node.name}' is an IterationListener, but is only called for records: derive it "
                "from ProcessFunction, KeyedProcessFunction, CoProcessFunction or KeyedCoProcessFunction"
            )


def _unbounded_source(graph: StreamGraph, node: int) -> str | None:
    """Return the name of an unbounded source that a node reads, or None."""
    before: dict[int, list[int]] = {}
    for edge in graph.edges:
        before.setdefault(edge.target, []).append(edge.source)
    read = {node} | reached(node, before)
    return next((source.name for source in graph.sources if source.id in read and _is_unbounded(source)), None)


def _is_unbounded(source: SourceTransformation) -> bool:
    return source.source.get_boundedness() is not Boundedness.BOUNDED
