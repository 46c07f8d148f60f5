"""BATCH jobs with structured iterations: each iteration is a pipelined region between blocking exchanges.

In BATCH mode a stage ends before the next one begins, so nothing could be fed back. A program with iterations runs as
phases, one job after the other:

    phase 0    in BATCH        what leads to iterations
    phase 1    pipelined       iterations that need nothing of another one
    phase 2    in BATCH        what is behind these
    ...                        all sinks are in the last phase, so that they commit together

What crosses from a phase to a later one is stored when the phase has ended, as a cached stream is.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping

from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.cached_records import CachedRecordsSource
from penstock.datastream.filling_results import FillingResults, Parts
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.regions import loops_of
from penstock.engine.plan.stream_graph import StreamEdge, StreamGraph, StreamNode
from penstock.engine.plan.transformations import (
    OperatorTransformation,
    SourceTransformation,
    SuperstepsTransformation,
)
from penstock.engine.runtime.execution_mode import BATCH, STREAMING, ExecutionMode
from penstock.engine.runtime.network.partitioners import ForwardPartitioner
from penstock.engine.runtime.operators.sink import CacheOperator


class Phase:
    """A job of a program. `results` receive what later phases read."""

    def __init__(self, graph: StreamGraph, mode: ExecutionMode) -> None:
        self.graph = graph
        self.mode = mode
        self.results: dict[int, ResultSink] = {}

    def job_graph(self, name: str) -> JobGraph:
        """Return the job. The earlier phases have to have ended: its sources contain what they have stored."""
        return JobGraph(name, self.graph, self.mode)


def phases_of(graph: StreamGraph, next_id: Callable[[], int]) -> list[Phase]:
    """Return the phases of a program in BATCH mode, in order; none if it has no structured iteration."""
    numbers = _numbers(graph)
    phases = {
        number: Phase(_part(graph, [id for id, one in numbers.items() if one == number]), _mode(number))
        for number in sorted(set(numbers.values()))
    }
    if len(phases) < 2:
        return []
    exchanges: dict[tuple[int, str | None], _Exchange] = {}
    for edge in graph.edges:
        sender, receiver = phases[numbers[edge.source]], phases[numbers[edge.target]]
        if sender is receiver:
            sender.graph.edges.append(edge)
            continue
        stream = edge.source, None if edge.tag is None else edge.tag.tag_id
        if stream not in exchanges:
            exchanges[stream] = _Exchange(graph.nodes[edge.source], edge, sender, next_id)
        receiver.graph.edges.append(dataclasses.replace(edge, source=exchanges[stream].read_by(receiver), tag=None))
    return list(phases.values())


class _Exchange:
    """A stream that a phase stores when it has ended, and that later phases read."""

    def __init__(self, source: StreamNode, edge: StreamEdge, phase: Phase, next_id: Callable[[], int]) -> None:
        self._source = source
        self._type = source.transformation.output_type if edge.tag is None else edge.tag.type_info
        self._next_id = next_id
        self._readers: dict[int, tuple[Phase, int]] = {}
        id = next_id()
        sink = OperatorTransformation(id, "Exchange", [], CacheOperator("Exchange", id), is_sink=True)
        phase.graph.nodes[id] = self._node(sink)
        phase.graph.edges.append(StreamEdge(source.id, id, ForwardPartitioner(), edge.tag))
        phase.results[id] = FillingResults(self._fill)

    def read_by(self, phase: Phase) -> int:
        """Return the id of the node that reads it in a phase."""
        if id(phase) not in self._readers:
            node = self._reader(self._next_id(), [])
            phase.graph.nodes = {node.id: node, **phase.graph.nodes}
            self._readers[id(phase)] = phase, node.id
        return self._readers[id(phase)][1]

    def _fill(self, parts: Parts) -> None:
        for phase, reader in self._readers.values():
            phase.graph.nodes[reader] = self._reader(reader, parts)

    def _reader(self, id: int, parts: Parts) -> StreamNode:
        return self._node(
            SourceTransformation(
                id=id,
                name=f"Exchange of {self._source.name}",
                source=CachedRecordsSource(parts),
                strategy=WatermarkStrategy.no_watermarks(),
                output_type=self._type,
                parallelism=self._source.parallelism,
            )
        )

    def _node(self, transformation: SourceTransformation | OperatorTransformation) -> StreamNode:
        """Return a node for a transformation, with the parallelism of the stream."""
        transformation.is_nameless = True
        return dataclasses.replace(
            self._source,
            id=transformation.id,
            name=transformation.name,
            operator=transformation.operator,
            uid=f"{transformation.id}-{transformation.name}",
            uid_is_users=False,
            transformation=transformation,
        )


def _mode(number: int) -> ExecutionMode:
    return STREAMING if number % 2 else BATCH


def _numbers(graph: StreamGraph) -> Mapping[int, int]:
    """Return the phase of each node: odd for iterations, even for what is between them."""
    heads = {id for id, node in graph.nodes.items() if isinstance(node.transformation, SuperstepsTransformation)}
    loops = [
        loop
        for loop in loops_of(graph.nodes, [(edge.source, edge.target) for edge in graph.edges])
        if not heads.isdisjoint(loop)
    ]
    loop_of = {id: loop for loop in loops for id in loop}
    numbers = {id: int(id in loop_of) for id in graph.nodes}
    changed = True
    while changed:
        changed = False
        for edge in graph.edges:
            before, loop = numbers[edge.source], loop_of.get(edge.target)
            if loop is not None and edge.source in loop:
                continue
            # The next number of the right kind. What an iteration gives another one passes between them.
            least = before + before % 2 if loop is None else before + 1 + before % 2
            if numbers[edge.target] < least:
                changed = True
                numbers |= dict.fromkeys(loop or [edge.target], least)
    last = max(numbers.values(), default=0)
    for id, node in graph.nodes.items():
        if getattr(node.transformation, "is_sink", False):
            numbers[id] = last + last % 2
    return numbers


def _part(graph: StreamGraph, nodes: list[int]) -> StreamGraph:
    part = copy.copy(graph)
    part.nodes, part.edges = {id: graph.nodes[id] for id in nodes}, []
    return part
