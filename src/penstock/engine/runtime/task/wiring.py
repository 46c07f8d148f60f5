"""How the chain of a task and the edges that leave it are put together."""

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
from penstock.engine.runtime.network.output import FeedbackEdge, OutputEdge
from penstock.engine.runtime.network.partitioners import HashPartitioner
from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.runtime.operators.operator import Output, Timestamps, Values, positions_taken
from penstock.engine.runtime.task.chain import Chain
from penstock.engine.runtime.task.context import OperatorContext, SubtaskInfo, TaskContext
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.inputs import Work
from penstock.engine.runtime.task.metrics import TaskCounters
from penstock.engine.runtime.task.vertex import LevelSpec, VertexSpec
from penstock.engine.state.key_groups import KeyGroups

# Where values leave a chain, for another task or a sink: they become ones of their declared type.

Take = Callable[[Values, Timestamps], bool]


class TypeBoundary:
    """Of one operator, for its main output and its side outputs."""

    def __init__(self, context: OperatorContext, output_type: TypeInformation | None) -> None:
        self._context = context
        self._output_type = output_type

    def before(self, tag: OutputTag[Any] | None, take: Take) -> Take:
        """What converts a chunk and passes it to `take`; `take` itself if the type leaves values as they are."""
        type_info = self._output_type if tag is None else tag.type_info
        convert = chunk_converter(type_info)
        if convert is None:
            return take

        def take_converted(values: Values, timestamps: Timestamps) -> bool:
            try:
                converted = convert(values)
            except (TypeError, ValueError, ArithmeticError) as error:
                raise self._error(error, type_info, values) from error
            return take(converted, timestamps)

        return take_converted

    def _error(self, error: Exception, type_info: TypeInformation | None, values: Values) -> Exception:
        """The chunk's converter keeps no position, for speed: the value is found by trying each."""
        convert = value_converter(type_info)
        assert convert is not None
        for value in values:
            try:
                convert(value)
            except (TypeError, ValueError, ArithmeticError) as found:
                return self._context.user_error(without_our_frames(found), "what it emits as its declared type", value)
        return self._context.user_error(error, "what it emits as its declared type")


# An operator's output where its declared type has rows: what it emits becomes Rows of that type.


def typed_output(
    output: Output, context: OperatorContext, output_type: TypeInformation | None, tags: Iterable[OutputTag[Any]]
) -> Output:
    """`output` itself, if neither the operator's type nor that of a side output has rows."""
    main = row_converter(output_type)
    sides = {tag.tag_id: row_converter(tag.type_info) for tag in tags}
    return TypedOutput(output, context, main, sides) if main is not None or any(sides.values()) else output


class TypedOutput:
    """Converts values before it passes them on."""

    def __init__(
        self, output: Output, context: OperatorContext, main: Converter | None, sides: dict[str, Converter | None]
    ) -> None:
        self._output = output
        self._context = context
        self._main = main
        self._sides = sides
        self.watermark = output.watermark
        self.status = output.status

    def emit(self, values: Values, timestamps: Timestamps) -> bool:
        return self._output.emit(self._converted(values, self._main), timestamps)

    def emit_side(self, tag: OutputTag[Any], values: Values, timestamps: Timestamps) -> bool:
        return self._output.emit_side(tag, self._converted(values, self._sides.get(tag.tag_id)), timestamps)

    def _converted(self, values: Values, convert: Converter | None) -> Values:
        if convert is None:
            return values
        rest = iter(values)
        try:
            return list(map(convert, rest))
        except (TypeError, ValueError) as error:
            value = values[positions_taken(values, rest)]
            raise self._context.user_error(error, "what it emits as its declared type", value) from error


def output_edges(
    vertex: VertexSpec, info: SubtaskInfo, counters: TaskCounters, key_groups: KeyGroups, environment: Environment
) -> list[OutputEdge]:
    """The edges that leave a subtask."""
    return [
        (FeedbackEdge if edge.feedback else OutputEdge)(
            edge,
            partitioner,
            info.subtask,
            environment.feedback if edge.feedback else environment.outbox,
            environment.budget,
            counters,
            info.attempt,
            info.batched,
            key_groups,
            environment.buffers,
        )
        for edge, partitioner in vertex.outputs
    ]


def wired_chain(vertex: VertexSpec, task: TaskContext, edges: list[OutputEdge], level: LevelSpec) -> Chain:
    """The operators of a subtask, set up and connected with each other and with `edges`; not opened."""
    chain = Chain(vertex.nodes)
    contexts = []
    for node, outlet, counters in zip(chain.nodes, chain.outlets, chain.counters, strict=True):
        context = OperatorContext(task, node.operator.name, node.uid, counters, node.state_id)
        tags = [link.tag for link in node.links if link.tag is not None]
        node.operator.setup(context, typed_output(outlet, context, node.output_type, tags))
        outlet.boundary = TypeBoundary(context, node.output_type).before
        contexts.append(context)
    chain.connect({edge.info.id: edge for edge in edges})
    if level.reuses_objects:
        chain.reuse_objects()
    for context, outlet in zip(contexts, chain.outlets, strict=True):
        for edge in outlet.edges:
            edge.operator = context
            edge.record_bytes_max = level.record_bytes_max
    return chain


def sorted_inputs(
    vertex: VertexSpec, level: LevelSpec, chain: Chain, work: deque[Work], environment: Environment
) -> SortedInputs | None:
    """What sorts the keyed inputs of a subtask, whose work items go into `work`; None: nothing is to be sorted."""
    head = chain.head
    if not (level.batched and isinstance(head, KeyedOperator)):
        return None
    selectors: list[Callable[[Any], Any] | None] = [None] * len(head.inputs())
    for edge, partitioner in vertex.inputs:
        if isinstance(partitioner, HashPartitioner):
            # The operator's own, which are open here; those of the partitioner are open in the sender.
            selectors[edge.input_index] = head.key_selectors()[edge.input_index]
    output = GatheringOutput(head.output, environment.budget, lambda: chain.paused_behind_head)
    head.output = output
    sorter = KeySorter(level.sorted_inputs_bytes, environment.open_spill)
    return SortedInputs(head, selectors, output, sorter, work, environment.budget, chain.counters[0])
