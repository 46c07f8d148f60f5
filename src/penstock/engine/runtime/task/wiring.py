"""Builds the chain of a task, and the edges that leave the task."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from penstock.api.output_tag import OutputTag
from penstock.common.errors.user_traceback import without_our_frames
from penstock.common.types.basic_types import TypeInformation
from penstock.common.types.declared_rows import Converter, row_converter
from penstock.common.types.declared_values import chunk_converter, value_converter
from penstock.engine.runtime.batch.key_sorter import KeySorter
from penstock.engine.runtime.batch.sorted_inputs import GatheringOutput, SortedInputs
from penstock.engine.runtime.chunks import Rows, Values
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.output import FeedbackEdge, OutputEdge
from penstock.engine.runtime.network.sender import BufferSender
from penstock.engine.runtime.network.superstep_edges import EndEdge, SuperstepEdge, SuperstepFeedbackEdge
from penstock.engine.runtime.network.superstep_partitioners import EndPartitioner
from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.runtime.operators.operator import Operator, Output, last_position
from penstock.engine.runtime.task.chain import Chain, ChunkReceiver
from penstock.engine.runtime.task.context import OperatorContext, SubtaskInfo, TaskContext
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.inputs import Work
from penstock.engine.runtime.task.metrics import TaskCounters
from penstock.engine.runtime.task.supersteps import Supersteps
from penstock.engine.runtime.task.vertex import LevelSpec, VertexSpec
from penstock.engine.state.key_groups import KeyGroups


class TypeBoundary:
    """Converts values of one operator to their declared types where they leave the chain, to a task or a sink."""

    def __init__(self, context: OperatorContext, operator: Operator, output_type: TypeInformation | None) -> None:
        self._context = context
        self._operator = operator
        self._output_type = output_type

    def converting(self, tag: OutputTag[Any] | None, receive: ChunkReceiver) -> ChunkReceiver:
        """Return a receiver that converts a chunk for `receive`; `receive` itself if the type changes no values."""
        type_info = self._output_type if tag is None else tag.type_info
        # The values of columns have the types that were declared for these.
        convert = None if tag is not None and self._operator.given_columns(tag) else chunk_converter(type_info)
        if convert is None:
            return receive

        def receive_unconverted(chunk: Rows) -> bool:
            try:
                converted = convert(chunk.values)
            except (TypeError, ValueError, ArithmeticError) as error:
                raise self._error(error, type_info, chunk.values) from error
            return receive(Rows(converted, chunk.timestamps))

        return receive_unconverted

    def _error(self, error: Exception, type_info: TypeInformation | None, values: Values) -> Exception:
        """Find the value by trying each: for speed, the chunk's converter keeps no position."""
        convert = value_converter(type_info)
        assert convert is not None
        for value in values:
            try:
                convert(value)
            except (TypeError, ValueError, ArithmeticError) as found:
                return self._context.user_error(without_our_frames(found), "what it emits as its declared type", value)
        return self._context.user_error(error, "what it emits as its declared type")


def typed_output(
    output: Output, context: OperatorContext, output_type: TypeInformation | None, tags: Iterable[OutputTag[Any]]
) -> Output:
    """Return an output that emits Rows of the declared types; `output` itself if no declared type has rows."""
    main = row_converter(output_type)
    sides = {tag.tag_id: row_converter(tag.type_info) for tag in tags}
    return TypedOutput(output, context, main, sides) if main is not None or any(sides.values()) else output


class TypedOutput:
    """Converts values to Rows of the declared types, and passes them on."""

    def __init__(
        self, output: Output, context: OperatorContext, main: Converter | None, sides: dict[str, Converter | None]
    ) -> None:
        self._output = output
        self._context = context
        self._main = main
        self._sides = sides
        self.watermark = output.watermark
        self.status = output.status

    def emit(self, chunk: Rows) -> bool:
        return self._output.emit(self._converted(chunk, self._main))

    def emit_side(self, tag: OutputTag[Any], chunk: Rows) -> bool:
        return self._output.emit_side(tag, self._converted(chunk, self._sides.get(tag.tag_id)))

    def _converted(self, chunk: Rows, convert: Converter | None) -> Rows:
        if convert is None:
            return chunk
        values = chunk.values
        rest = iter(values)
        try:
            return Rows(list(map(convert, rest)), chunk.timestamps)
        except (TypeError, ValueError) as error:
            value = values[last_position(values, rest)]
            raise self._context.user_error(error, "what it emits as its declared type", value) from error


def output_edges(
    vertex: VertexSpec,
    info: SubtaskInfo,
    counters: TaskCounters,
    key_groups: KeyGroups,
    *,
    environment: Environment,
    supersteps: Supersteps | None = None,
) -> list[OutputEdge]:
    """Create the edges that leave a subtask. `key_groups`: its own, which edges to equally many share."""
    edges: list[OutputEdge] = []
    carriers = _carriers([edge for edge, _ in vertex.outputs])
    of_targets = {key_groups.max_parallelism: key_groups}
    for edge, partitioner in vertex.outputs:
        groups = of_targets.setdefault(edge.target_max_parallelism, KeyGroups(edge.target_max_parallelism))
        sender = BufferSender(
            edge,
            info.subtask,
            outbox=environment.feedback if edge.feedback else environment.outbox,
            budget=environment.budget,
            counters=counters,
            attempt=info.attempt,
            sorts_rows=info.mode.sorts_inputs,
            channels=len(partitioner.targets(info.subtask, edge.source_parallelism, edge.target_parallelism)),
            size=environment.buffers,
        )
        if isinstance(partitioner, EndPartitioner):
            edges.append(EndEdge(partitioner, sender, groups))
        elif supersteps is not None and edge.in_supersteps:
            kind = SuperstepFeedbackEdge if edge.feedback else SuperstepEdge
            edges.append(kind(partitioner, sender, groups, supersteps=supersteps, carries=edge.id in carriers))
        else:
            edges.append((FeedbackEdge if edge.feedback else OutputEdge)(partitioner, sender, groups))
    return edges


def _carriers(edges: list[EdgeInfo]) -> set[int]:
    """Return the edges that carry the aggregates of a superstep: one to each head, or else one to the next task."""
    inner = [edge for edge in edges if edge.in_supersteps]
    heads = {edge.target_vertex: edge.id for edge in reversed(inner) if edge.feedback}
    return set(heads.values()) or {edge.id for edge in inner[:1]}


def wired_chain(vertex: VertexSpec, task: TaskContext, edges: list[OutputEdge], level: LevelSpec) -> Chain:
    """Set up the operators of a subtask, and connect them with each other and with `edges`. They are not opened."""
    chain = Chain(vertex.nodes)
    contexts = []
    for node, outlet, counters in zip(chain.nodes, chain.outlets, chain.counters, strict=True):
        context = OperatorContext(task, node.operator.name, uid=node.uid, counters=counters, state_id=node.state_id)
        tags = [
            link.tag for link in node.links if link.tag is not None and node.operator.given_columns(link.tag) is None
        ]
        node.operator.setup(context, typed_output(outlet, context, node.output_type, tags))
        outlet.boundary = TypeBoundary(context, node.operator, node.output_type).converting
        contexts.append(context)
    chain.connect({edge.info.id: edge for edge in edges})
    if level.reuses_objects:
        chain.reuse_objects()
    for context, outlet in zip(contexts, chain.outlets, strict=True):
        for edge in outlet.edges:
            edge.sender.operator = context
            edge.sender.record_bytes_max = level.record_bytes_max
    return chain


def sorted_inputs(
    vertex: VertexSpec, level: LevelSpec, chain: Chain, work: deque[Work], environment: Environment
) -> SortedInputs | None:
    """Create the sorter of a subtask's keyed inputs, or return None if nothing is sorted. Its items go into `work`."""
    head = chain.head
    if not (level.mode.sorts_inputs and isinstance(head, KeyedOperator)):
        return None
    selectors: list[Callable[[Any], Any] | None] = [None] * len(head.inputs())
    for edge, partitioner in vertex.inputs:
        if partitioner.keyed:
            # Not the partitioner's selector: that one is open in the sender, the operator's is open here.
            selectors[edge.input_index] = head.key_selectors()[edge.input_index]
    output = GatheringOutput(head.output, environment.budget, lambda: chain.paused_behind_head)
    head.output = output
    sorter = KeySorter(
        level.sorted_inputs_bytes,
        environment.open_spill,
        lambda spill: head.context.memory_account("sorted input", spill=spill),
    )
    return SortedInputs(
        head,
        selectors,
        output=output,
        sorter=sorter,
        work=work,
        budget=environment.budget,
        counters=chain.counters[0],
    )
