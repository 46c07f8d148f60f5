"""JobGraph: operators chained into vertices, vertices assigned to levels.

The level of a vertex is its longest distance from a source. All vertices of a level share one Spark stage, so any
connected DAG becomes a straight line of stages; an edge that skips levels is relayed by the stages in between
(docs/internals/decisions/0008-levels.md). Parts of a pipelined job without an edge between them are regions
(regions.py), each with levels, and a Spark query, of its own.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from penstock.api.source import Source
from penstock.common.errors import ProgramError
from penstock.common.text.secrets import without_passwords
from penstock.common.types.basic_types import TypeInformation
from penstock.common.types.declared_rows import row_converter
from penstock.common.types.declared_values import value_converter
from penstock.engine.plan.regions import loops_of, regions_of
from penstock.engine.plan.stream_graph import StreamEdge, StreamGraph, StreamNode
from penstock.engine.plan.transformations import Chaining
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.partitioners import BroadcastPartitioner, ForwardPartitioner
from penstock.engine.runtime.operators.sink import SinkOperator
from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.runtime.task.vertex import ChainLink, ChainNode, LevelSpec, VertexSpec


@dataclasses.dataclass
class JobVertex:
    """A chain of operators that run in one task, in topological order."""

    id: int
    nodes: list[StreamNode]
    level: int = 0
    labels: list[str] = dataclasses.field(default_factory=list)
    """Of each operator: the name, the user's uid, the side output that it reads, what it reads or writes outside."""

    @property
    def parallelism(self) -> int:
        """Number of subtasks."""
        return self.nodes[0].parallelism

    @property
    def max_parallelism(self) -> int:
        """Number of key groups."""
        return self.nodes[0].max_parallelism

    def adopt_max_parallelism(self, of_state: int) -> None:
        """Take the maximum with which its state was written, if the program has set none and it suffices.

        Not behind the plan's back: to be called before the job is deployed. Source: Flink, StateAssignmentOperation,
        checkParallelismPreconditions.
        """
        if self.parallelism <= of_state and all(node.max_is_derived for node in self.nodes):
            for node in self.nodes:
                node.max_parallelism = of_state

    @property
    def is_source(self) -> bool:
        """Whether it reads from outside."""
        return isinstance(self.nodes[0].operator, SourceOperator)

    @property
    def source(self) -> Source[Any]:
        """What a source vertex reads."""
        operator = self.nodes[0].operator
        assert isinstance(operator, SourceOperator)
        return operator.source

    @property
    def operators(self) -> list[str]:
        """Names of the operators."""
        return [node.name for node in self.nodes]

    @property
    def name(self) -> str:
        """Name of the vertex and its tasks: the operators' names."""
        return " -> ".join(self.operators)


@dataclasses.dataclass
class JobEdge:
    """An edge between two vertices."""

    id: int
    source: int
    target: int
    stream_edge: StreamEdge

    @property
    def partitioner(self) -> str:
        """Name of the partitioner: HASH, FORWARD, REBALANCE, ..."""
        return self.stream_edge.partitioner.ship_strategy

    @property
    def feedback(self) -> bool:
        """Whether it leads back to the head of an iteration."""
        return self.stream_edge.feedback

    @property
    def side_output(self) -> str | None:
        """Id of the side output that it carries; None: the main output."""
        tag = self.stream_edge.tag
        return None if tag is None else tag.tag_id


class JobGraph:
    """The plan of a job, drawn by `penstock explain` and deployed by the hosts."""

    def __init__(self, name: str, graph: StreamGraph, batched: bool) -> None:
        self.name = name
        self.batched = batched
        self.stream_graph = graph
        self._nodes = dict(graph.nodes)
        self._edges = list(graph.edges)
        if batched:
            self._refuse_loops()
            self._add_combiners()
        self.vertices, self._vertex_of = self._fuse()
        for vertex in self.vertices:
            vertex.labels = [self._label(node) for node in vertex.nodes]
        self.edges: list[JobEdge] = []
        for edge in self._in_reading_order():
            source, target = self._vertex_of[edge.source], self._vertex_of[edge.target]
            if source is not target or edge.feedback:
                self.edges.append(JobEdge(len(self.edges), source.id, target.id, edge))
        self.regions = self._assign_levels()
        """The levels of each pipelined region: one Spark query hosts them."""
        self.loops = loops_of(range(len(self.vertices)), [(edge.source, edge.target) for edge in self.edges])
        """The vertices of each loop: those that reach each other. Loops that share a vertex are one."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Slots of each level: the maximum parallelism of its vertices."""
        widths = [1] * (max(vertex.level for vertex in self.vertices) + 1)
        for vertex in self.vertices:
            widths[vertex.level] = max(widths[vertex.level], vertex.parallelism)
        return tuple(widths)

    @property
    def slots(self) -> int:
        """Slots that the job occupies at once: those of all levels in pipelined mode, at least one in batched mode."""
        return 1 if self.batched else sum(self.widths)

    @property
    def sources(self) -> list[JobVertex]:
        """The vertices that read from outside."""
        return [vertex for vertex in self.vertices if vertex.is_source]

    def with_parallelism(self, parallelism: Mapping[int, int]) -> JobGraph:
        """The same plan with these numbers of subtasks, by vertex. What may change is decided by rescaling.py."""
        return self.with_nodes(
            {
                node.id: dataclasses.replace(node, parallelism=parallelism[vertex.id])
                for vertex in self.vertices
                for node in vertex.nodes
            }
        )

    def with_nodes(self, nodes: Mapping[int, StreamNode]) -> JobGraph:
        """The same plan with these in place of those of the same ids."""
        other = copy.copy(self)
        other.vertices = [
            dataclasses.replace(vertex, nodes=[nodes.get(node.id, node) for node in vertex.nodes])
            for vertex in self.vertices
        ]
        other._nodes = {node.id: node for vertex in other.vertices for node in vertex.nodes}
        other._vertex_of = {node.id: vertex for vertex in other.vertices for node in vertex.nodes}
        other.stream_graph = copy.copy(self.stream_graph)
        other.stream_graph.nodes = {id: other._nodes[id] for id in self.stream_graph.nodes}
        return other

    def _refuse_loops(self) -> None:
        """Raises ProgramError: a batched stage ends before the next begins. Source: Flink docs, "Execution Mode"."""
        for edge in self._edges:
            if edge.feedback:
                raise ProgramError(
                    f"the iteration '{self._nodes[edge.target].name}' can't run in BATCH mode, in which nothing is fed "
                    "back: call env.set_runtime_mode(RuntimeExecutionMode.STREAMING), or set execution.runtime-mode"
                )

    def _label(self, node: StreamNode) -> str:
        operator = node.operator
        parts = [f"uid {node.uid}"] if node.uid_is_users else []
        parts += [
            f"side output '{edge.tag.tag_id}' of {self._nodes[edge.source].name}"
            for edge in self._edges
            if edge.target == node.id and edge.tag is not None
        ]
        if isinstance(operator, SourceOperator):
            parts.append(without_passwords(operator.source.describe()))
        elif isinstance(operator, SinkOperator):
            parts.append(without_passwords(operator.sink.describe()))
        return "  ".join([node.name, *(part for part in parts if part)])

    def vertices_of(self, region: int) -> list[JobVertex]:
        """The vertices of a pipelined region, by its index in `regions`."""
        return [vertex for vertex in self.vertices if vertex.level in self.regions[region]]

    def _in_reading_order(self) -> list[StreamEdge]:
        """The edges in the order in which a batched task is to read them: it reads its input sorted by edge number.

        An operator with a broadcast input must have seen all of it before the first record of another input. Between
        key groups nothing is left to do, since rows of a broadcast carry no key group, and sort before those that do.
        """
        if not self.batched:
            return self._edges
        return sorted(self._edges, key=lambda edge: not isinstance(edge.partitioner, BroadcastPartitioner))

    def _add_combiners(self) -> None:
        """Insert a combiner before keyed exchanges whose target operator has one: it reduces what is sent."""
        next_id = max(self._nodes) + 1
        for edge in list(self._edges):
            combiner = self._nodes[edge.target].operator.combiner() if edge.partitioner.keyed else None
            if combiner is None:
                continue
            source = self._nodes[edge.source]
            self._nodes[next_id] = dataclasses.replace(
                source, id=next_id, name=combiner.name, operator=combiner, uid=f"{source.uid}/combine-{next_id}"
            )
            self._edges.append(StreamEdge(edge.source, next_id, ForwardPartitioner(), edge.tag))
            self._edges[self._edges.index(edge)] = dataclasses.replace(edge, source=next_id, tag=None)
            next_id += 1

    def _may_chain(self, edge: StreamEdge, inputs: dict[int, list[StreamEdge]]) -> bool:
        """Whether the target may run in the chain of the source.

        Never if it has a second edge, to the same input or to another one: of two paths that meet in one operator, the
        second would hand it a chunk while it still holds one of the first (`engine/runtime/operators/operator.py`,
        Pausing). It is the head of its own vertex then, which the task hands one work item at a time. Flink does the
        same.
        """
        source, target = self._nodes[edge.source], self._nodes[edge.target]
        # A chained operator is called by its one predecessor, in the same task. So the edge must keep every record in
        # its subtask (forward, equal parallelism) and be the only input: with two inputs, the operator's watermark is
        # a minimum over channels, which only a task's valve computes.
        return (
            self.stream_graph.settings.chaining
            and type(edge.partitioner) is ForwardPartitioner
            and len(inputs[edge.target]) == 1
            and source.parallelism == target.parallelism
            and source.transformation.chaining is not Chaining.NEVER
            and target.transformation.chaining is Chaining.ALWAYS
            and (source.transformation.slot_sharing_group == target.transformation.slot_sharing_group)
        )

    def _fuse(self) -> tuple[list[JobVertex], dict[int, JobVertex]]:
        inputs: dict[int, list[StreamEdge]] = defaultdict(list)
        for edge in self._edges:
            # What is fed back comes by a channel of its own, and levels are counted without it.
            if not edge.feedback:
                inputs[edge.target].append(edge)
        vertices: list[JobVertex] = []
        vertex_of: dict[int, JobVertex] = {}
        for id in self._topological(inputs):
            into = inputs[id]
            if into and self._may_chain(into[0], inputs):
                vertex = vertex_of[into[0].source]
            else:
                vertex = JobVertex(len(vertices), [])
                vertices.append(vertex)
            vertex.nodes.append(self._nodes[id])
            vertex_of[id] = vertex
        return vertices, vertex_of

    def _topological(self, inputs: dict[int, list[StreamEdge]]) -> list[int]:
        waiting = {id: {edge.source for edge in inputs[id]} for id in self._nodes}
        ordered: list[int] = []
        done: set[int] = set()
        while len(ordered) < len(waiting):
            ready = [id for id in waiting if id not in done and waiting[id] <= done]
            ordered.extend(ready)
            done.update(ready)
        return ordered

    def _assign_levels(self) -> list[range]:
        """Give each vertex its level. Returns the levels of each region.

        A vertex's level is its longest distance from a source, counted within its region from the region's first level:
        no stage hosts vertices of two regions. A batched job is one region: its stages run one after the other.
        """
        # Vertices are created in topological order, so one pass is enough.
        for vertex in self.vertices:
            before = [
                self.vertices[edge.source].level
                for edge in self.edges
                if edge.target == vertex.id and not edge.feedback
            ]
            vertex.level = max(before) + 1 if before else 0
        if self.batched:
            return [range(max(vertex.level for vertex in self.vertices) + 1)]
        regions = []
        first = 0
        edges = [(edge.source, edge.target) for edge in self.edges]
        for region in regions_of([vertex.id for vertex in self.vertices], edges):
            depth = max(self.vertices[id].level for id in region) + 1
            for id in region:
                self.vertices[id].level += first
            regions.append(range(first, first + depth))
            first += depth
        return regions

    def levels(self, job_id: str, attempt: int = 0, **settings: object) -> list[LevelSpec]:
        """Return what each Spark stage hosts. `settings` are further fields of LevelSpec."""
        widths = self.widths
        infos = {edge.id: self._info(edge, widths) for edge in self.edges}
        return [
            LevelSpec(
                job_id=job_id,
                level=level,
                widths=widths,
                vertices=[self._spec(vertex, infos) for vertex in self.vertices if vertex.level == level],
                # A level also gets the edges that pass over it: its slots relay their buffers unopened.
                edges={id: info for id, info in infos.items() if info.source_level < level <= info.target_level},
                batched=self.batched,
                attempt=attempt,
                **settings,  # type: ignore[arg-type]
            )
            for level in range(len(widths))
        ]

    def _info(self, edge: JobEdge, widths: tuple[int, ...]) -> EdgeInfo:
        source, target = self.vertices[edge.source], self.vertices[edge.target]
        return EdgeInfo(
            edge.id,
            target.id,
            source.parallelism,
            target.parallelism,
            source.level,
            target.level,
            widths,
            edge.stream_edge.input_index,
            edge.feedback,
            any(edge.source in loop and edge.target in loop for loop in self.loops),
        )

    def _spec(self, vertex: JobVertex, infos: dict[int, EdgeInfo]) -> VertexSpec:
        position = {node.id: index for index, node in enumerate(vertex.nodes)}
        leaving = {id(edge.stream_edge): edge for edge in self.edges if edge.source == vertex.id}
        nodes = []
        for node in vertex.nodes:
            links = []
            for edge in self._edges:
                if edge.source != node.id:
                    continue
                if edge.target in position and not edge.feedback:
                    links.append(ChainLink(edge.tag, operator=position[edge.target], input_index=edge.input_index))
                else:
                    links.append(ChainLink(edge.tag, edge=leaving[id(edge)].id))
            nodes.append(
                ChainNode(node.operator, node.uid if node.uid_is_users else "", links, node.uid, applied_type(node))
            )
        return VertexSpec(
            id=vertex.id,
            name=vertex.name,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            nodes=nodes,
            inputs=[(infos[edge.id], edge.stream_edge.partitioner) for edge in self.edges if edge.target == vertex.id],
            outputs=[(infos[edge.id], edge.stream_edge.partitioner) for edge in self.edges if edge.source == vertex.id],
            buffer_timeout_ms=_buffer_timeout_ms(vertex.nodes),
        )


def applied_type(node: StreamNode) -> TypeInformation | None:
    """The type that a task applies to what the operator emits; others stay with the program.

    A source emits what its reader gives; a collection is converted where the program is written.
    """
    output_type: TypeInformation | None = node.transformation.output_type
    if isinstance(node.operator, SourceOperator) or output_type is None or not output_type.applies:
        return None
    changes = row_converter(output_type) is not None or value_converter(output_type) is not None
    return output_type if changes else None


def _buffer_timeout_ms(nodes: list[StreamNode]) -> int:
    """Return the shortest timeout of the chain; -1 (flush only full buffers) counts as the longest."""
    return min((node.buffer_timeout_ms for node in nodes if node.buffer_timeout_ms >= 0), default=-1)
