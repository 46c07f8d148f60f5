"""How the chain of a task and the edges that leave it are put together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.engine.runtime.batch.gathering_output import GatheringOutput
from penstock.engine.runtime.batch.key_sorter import KeySorter
from penstock.engine.runtime.batch.sorted_inputs import SortedInputs
from penstock.engine.runtime.network.output import FeedbackEdge, OutputEdge
from penstock.engine.runtime.network.partitioners import HashPartitioner
from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.runtime.task.chain import Chain
from penstock.engine.runtime.task.context import OperatorContext, SubtaskInfo, TaskContext
from penstock.engine.runtime.task.counters import TaskCounters
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.inputs import Work
from penstock.engine.runtime.task.type_boundary import TypeBoundary
from penstock.engine.runtime.task.typed_output import typed_output
from penstock.engine.runtime.task.vertex import LevelSpec, VertexSpec
from penstock.engine.state.key_groups import KeyGroups


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
