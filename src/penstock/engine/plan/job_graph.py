"""Chain operators into the vertices of a JobGraph, and assign the vertices to levels.

The level of a vertex is its longest distance from a source. All vertices of a level share one Spark stage, so any
connected DAG becomes a straight line of stages; an edge that skips levels is relayed by the stages in between
(docs/internals/decisions/0008-levels.md). Parts of a pipelined job without an edge between them are regions
(regions.py), each with its own levels and its own Spark query.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.api.source import Source
from penstock.common.text.secrets import without_secrets
from penstock.common.types.basic_types import TypeInformation
from penstock.common.types.declared_rows import row_converter
from penstock.common.types.declared_values import value_converter
from penstock.engine.plan.passes import PASSES
from penstock.engine.plan.plan import Plan, applied
from penstock.engine.plan.regions import loops_of, regions_of
from penstock.engine.plan.stream_graph import StreamEdge, StreamGraph, StreamNode
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.execution_mode import ExecutionMode
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.task.vertex import ChainLink, ChainNode, LevelSpec, VertexSpec


@dataclasses.dataclass
class JobVertex:
    """A chain of operators that run in one task, in topological order."""

    id: int
    nodes: list[StreamNode]
    level: int = 0
    labels: list[str] = dataclasses.field(default_factory=list)
    """A text for each operator: its name, the user's uid, the side output it reads, the external system it uses."""

    @property
    def parallelism(self) -> int:
        """Number of subtasks."""
        return self.nodes[0].parallelism

    @property
    def max_parallelism(self) -> int:
        """Number of key groups."""
        return self.nodes[0].max_parallelism

    @property
    def is_source(self) -> bool:
        """Whether it reads an external system."""
        return self.nodes[0].operator.source is not None

    @property
    def source(self) -> Source[Any]:
        """The source that a source vertex reads."""
        source = self.nodes[0].operator.source
        assert source is not None, f"{self.name} is not a source"
        return source

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
        """Id of the side output that it carries; None for the main output."""
        tag = self.stream_edge.tag
        return None if tag is None else tag.tag_id


class JobGraph:
    """The plan of a job, drawn by `penstock explain` and deployed by the hosts."""

    def __init__(self, name: str, graph: StreamGraph, mode: ExecutionMode) -> None:
        self.name = name
        self.compiled_plan = ""
        """The plan of a job of SQL statements, which its checkpoints contain; empty for other jobs."""
        self.check_origin: Callable[[Any, bool], None] | None = None
        """Raises CheckpointError if the plan can't have the state of a manifest. The second argument: whether state may
        be left out. Called where the manifest is read, which may be on another machine than that of the program."""
        self.mode = mode
        self.stream_graph = graph
        settings = graph.settings
        given = Plan(
            graph.nodes,
            graph.edges,
            may_chain=settings.chaining,
            aggregates_locally=settings.local_aggregation,
            chooses_columns=settings.automatic_columns,
        )
        plan, self.changes = applied(given, PASSES[mode])
        """The changes that the passes of the plan have made."""
        self._nodes, self._edges = plan.nodes, plan.edges
        self.vertices, self._vertex_of = self._fuse(plan)
        for vertex in self.vertices:
            vertex.labels = [self._label(node) for node in vertex.nodes]
        self.edges: list[JobEdge] = []
        for edge in self._edges:
            source, target = self._vertex_of[edge.source], self._vertex_of[edge.target]
            if source is not target or edge.feedback:
                self.edges.append(JobEdge(len(self.edges), source.id, target.id, edge))
        self.regions = self._assign_levels()
        """The levels of each pipelined region. One Spark query hosts a region."""
        self.loops = loops_of(range(len(self.vertices)), [(edge.source, edge.target) for edge in self.edges])
        """The vertices of each loop: those that reach each other. Loops that share a vertex count as one."""

    @property
    def structured_loops(self) -> list[frozenset[int]]:
        """The loops that are structured iterations: they run in supersteps, and decide themselves when to end."""
        heads = self.superstep_heads
        return [loop for loop in self.loops if not heads.isdisjoint(loop)]

    @property
    def superstep_heads(self) -> frozenset[int]:
        """The vertices with the heads of structured iterations."""
        return frozenset(edge.target for edge in self.edges if edge.stream_edge.role is not None)

    @property
    def superstep_levels(self) -> frozenset[int]:
        """The levels with vertices of structured iterations."""
        return frozenset(self.vertices[vertex].level for loop in self.structured_loops for vertex in loop)

    @property
    def widths(self) -> tuple[int, ...]:
        """Slots of each level: the maximum parallelism of its vertices."""
        widths = [1] * (max(vertex.level for vertex in self.vertices) + 1)
        for vertex in self.vertices:
            widths[vertex.level] = max(widths[vertex.level], vertex.parallelism)
        return tuple(widths)

    @property
    def slots(self) -> int:
        """Slots that the job needs at the same time: the sum over all levels in pipelined mode, 1 in batched mode."""
        return 1 if self.mode.blocking_exchanges else sum(self.widths)

    @property
    def sources(self) -> list[JobVertex]:
        """The source vertices."""
        return [vertex for vertex in self.vertices if vertex.is_source]

    def with_parallelism(self, parallelism: Mapping[int, int]) -> JobGraph:
        """Return the same plan with these numbers of subtasks, by vertex. rescaling.py checks what may change."""
        return self.with_nodes(
            {
                node.id: dataclasses.replace(node, parallelism=parallelism[vertex.id])
                for vertex in self.vertices
                for node in vertex.nodes
            }
        )

    def with_nodes(self, nodes: Mapping[int, StreamNode]) -> JobGraph:
        """Return the same plan with `nodes` in place of those that have the same ids."""
        other = copy.copy(self)
        other.vertices = [copy.copy(vertex) for vertex in self.vertices]
        other.stream_graph = copy.copy(self.stream_graph)
        other._replace_nodes(nodes)
        return other

    def adopt_max_parallelism(self, vertex: JobVertex, restored: int) -> None:
        """Use the maximum parallelism of a vertex's restored state, if it is high enough and the program sets none.

        Call this before the job is deployed. Source: Flink, StateAssignmentOperation, checkParallelismPreconditions.
        """
        if vertex.parallelism <= restored and all(node.max_is_derived for node in vertex.nodes):
            self._replace_nodes({node.id: dataclasses.replace(node, max_parallelism=restored) for node in vertex.nodes})

    def _replace_nodes(self, nodes: Mapping[int, StreamNode]) -> None:
        for vertex in self.vertices:
            vertex.nodes = [nodes.get(node.id, node) for node in vertex.nodes]
        self._nodes = {node.id: node for vertex in self.vertices for node in vertex.nodes}
        self._vertex_of = {node.id: vertex for vertex in self.vertices for node in vertex.nodes}
        self.stream_graph.nodes = {id: self._nodes[id] for id in self.stream_graph.nodes}

    def _label(self, node: StreamNode) -> str:
        operator = node.operator
        parts = [f"uid {node.uid}"] if node.uid_is_users else []
        parts += [
            f"side output '{edge.tag.tag_id}' of {self._nodes[edge.source].name}"
            for edge in self._edges
            if edge.target == node.id and edge.tag is not None
        ]
        external = operator.sink if operator.source is None else operator.source
        if external is not None:
            parts.append(without_secrets(external.describe()))
        return "  ".join([node.name, *(part for part in parts if part)])

    def vertices_of(self, region: int) -> list[JobVertex]:
        """Return the vertices of a pipelined region, given by its index in `regions`."""
        return [vertex for vertex in self.vertices if vertex.level in self.regions[region]]

    def _fuse(self, plan: Plan) -> tuple[list[JobVertex], dict[int, JobVertex]]:
        vertices: list[JobVertex] = []
        vertex_of: dict[int, JobVertex] = {}
        for id in self._topological(plan.inputs):
            into = plan.inputs[id]
            if len(into) == 1 and plan.chains(into[0]):
                vertex = vertex_of[into[0].source]
            else:
                vertex = JobVertex(len(vertices), [])
                vertices.append(vertex)
            vertex.nodes.append(self._nodes[id])
            vertex_of[id] = vertex
        return vertices, vertex_of

    def _topological(self, inputs: Mapping[int, Sequence[StreamEdge]]) -> list[int]:
        waiting = {id: {edge.source for edge in inputs[id]} for id in self._nodes}
        ordered: list[int] = []
        done: set[int] = set()
        while len(ordered) < len(waiting):
            ready = [id for id in waiting if id not in done and waiting[id] <= done]
            ordered.extend(ready)
            done.update(ready)
        return ordered

    def _assign_levels(self) -> list[range]:
        """Give each vertex its level. Return the levels of each region.

        A vertex's level is its longest distance from a source, counted from the first level of its region: a stage
        hosts vertices of one region only. A batched job is one region: its stages run one after the other.
        """
        # Vertices are created in topological order, so one pass is enough.
        for vertex in self.vertices:
            before = [
                self.vertices[edge.source].level
                for edge in self.edges
                if edge.target == vertex.id and not edge.feedback
            ]
            vertex.level = max(before) + 1 if before else 0
        if self.mode.blocking_exchanges:
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
        """Return the vertices and edges of each Spark stage. `settings` are further fields of LevelSpec."""
        widths = self.widths
        infos = {edge.id: self._info(edge, widths) for edge in self.edges}
        return [
            LevelSpec(
                job_id=job_id,
                level=level,
                widths=widths,
                vertices=[self._spec(vertex, infos) for vertex in self.vertices if vertex.level == level],
                # A level also gets the edges that pass over it: its slots relay their buffers unopened.
                edges={
                    id: info
                    for id, info in infos.items()
                    if info.source_level < level <= info.target_level and not info.feedback
                },
                mode=self.mode,
                attempt=attempt,
                **settings,  # type: ignore[arg-type]
            )
            for level in range(len(widths))
        ]

    def _info(self, edge: JobEdge, widths: tuple[int, ...]) -> EdgeInfo:
        source, target = self.vertices[edge.source], self.vertices[edge.target]
        columns = edge.stream_edge.columns
        return EdgeInfo(
            id=edge.id,
            target_vertex=target.id,
            source_parallelism=source.parallelism,
            target_parallelism=target.parallelism,
            target_max_parallelism=target.max_parallelism,
            source_level=source.level,
            target_level=target.level,
            widths=widths,
            input_index=edge.stream_edge.input_index,
            feedback=edge.feedback,
            in_loop=any(edge.source in loop and edge.target in loop for loop in self.loops),
            in_supersteps=any(edge.source in loop and edge.target in loop for loop in self.structured_loops),
            role=edge.stream_edge.role,
            key_fields=edge.stream_edge.partitioner.fields,
            event_time_field=edge.stream_edge.event_time_field,
            kind=ChunkKind.ROWS if columns is None else ChunkKind.COLUMNS,
            mixes_rows=columns is not None and self._nodes[edge.stream_edge.target].operator.takes_rows_as_well,
            schema=None if columns is None else columns.schema.serialize().to_pybytes(),
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
                ChainNode(
                    node.operator,
                    uid=node.uid if node.uid_is_users else "",
                    links=links,
                    state_id=node.uid,
                    output_type=applied_type(node),
                )
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
    """Return the type to which a task converts the operator's output, or None if it does not convert.

    Tasks do not convert the output of sources: a collection is converted when the program is built.
    """
    output_type: TypeInformation | None = node.transformation.output_type
    if node.operator.source is not None or output_type is None or not output_type.applies:
        return None
    if node.operator.gives_parts:
        return None
    if node.is_conversion or node.operator.gives is not ChunkKind.ROWS:
        # Records that were columns have the declared types.
        return None
    changes = row_converter(output_type) is not None or value_converter(output_type) is not None
    return output_type if changes else None


def _buffer_timeout_ms(nodes: list[StreamNode]) -> int:
    """Return the shortest timeout of the chain; -1 (flush only full buffers) counts as the longest."""
    return min((node.buffer_timeout_ms for node in nodes if node.buffer_timeout_ms >= 0), default=-1)
