"""Build the StreamGraph: the program's operators and edges, with partitionings, unions and side outputs resolved."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from penstock.api.output_tag import OutputTag
from penstock.api.source import Boundedness
from penstock.common.errors import ProgramError
from penstock.engine.plan.transformations import (
    CacheTransformation,
    DeployedTransformation,
    FeedbackTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    SourceTransformation,
    SuperstepsTransformation,
    Transformation,
    UnionTransformation,
)
from penstock.engine.runtime.network.edge import FeedbackRole
from penstock.engine.runtime.network.partitioners import (
    CustomPartitioner,
    ForwardPartitioner,
    Partitioner,
    RebalancePartitioner,
    RescalePartitioner,
)
from penstock.engine.runtime.network.superstep_partitioners import CountPartitioner, WorksetForwardPartitioner
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.state.key_groups import MAX_PARALLELISM_BOUND, default_max_parallelism

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

NOTHING_REPLACED: Mapping[int, Transformation] = MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class GraphSettings:
    """The environment's defaults for operators without settings of their own."""

    parallelism: int = 1
    max_parallelism: int | None = None
    buffer_timeout_ms: int = 5
    watermark_interval_ms: int = 200
    chaining: bool = True
    local_aggregation: bool = True
    automatic_columns: bool = True
    auto_generate_uids: bool = True
    """Whether operators without a uid are allowed."""


@dataclasses.dataclass(frozen=True)
class StreamNode:
    """A deployed operator. `uid` is the user's, or derived from the position in the program."""

    id: int
    name: str
    operator: Operator
    parallelism: int
    max_parallelism: int
    uid: str
    uid_is_users: bool
    buffer_timeout_ms: int
    transformation: Transformation
    is_conversion: bool = False
    """Whether the plan has inserted it to convert chunks: it is chained regardless of settings, and has no state."""
    max_is_derived: bool = False
    """Whether the program does not set the maximum parallelism: then it adopts the one of restored state."""


@dataclasses.dataclass(frozen=True)
class StreamEdge:
    """Sends records of `source`, or of its side output `tag`, to input `input_index` of `target`."""

    source: int
    target: int
    partitioner: Partitioner
    tag: OutputTag[Any] | None = None
    input_index: int = 0
    feedback: bool = False
    """Whether it leads back to the head of an iteration, which closes a loop."""
    role: FeedbackRole | None = None
    """Its purpose, if that iteration is a structured one."""
    columns: RecordColumns | None = None
    """The columns that it carries to another task; None: it carries rows, or leads on in the chain."""
    event_time_field: str | None = None
    """The one of these columns whose values are the timestamps of the records, if any."""

    @property
    def gets_records(self) -> bool:
        """Whether the target gets the records, and not only their number."""
        return self.role is None or self.role.carries_records


class StreamGraph:
    """Build the graph of a submission. Raises ProgramError for an invalid program.

    `replaced`: streams that are read in place of others, by the ids of these.
    """

    def __init__(
        self,
        sinks: list[Transformation],
        settings: GraphSettings,
        replaced: Mapping[int, Transformation] = NOTHING_REPLACED,
    ) -> None:
        self.settings = settings
        self._replaced = replaced
        self.nodes: dict[int, StreamNode] = {}
        self.edges: list[StreamEdge] = []
        self.unfilled: list[CacheTransformation] = []
        """Cached streams that no job has computed yet."""
        for transformation in in_order(sinks, replaced):
            if isinstance(transformation, CacheTransformation) and not transformation.is_filled:
                self.unfilled.append(transformation)
            if isinstance(transformation, DeployedTransformation):
                self._add(transformation)
        for head in self._heads():
            self._close(head)
            self._check_chosen_subtasks(head)
        self._check_uids()

    def _add(self, transformation: DeployedTransformation) -> None:
        parallelism = self._parallelism(transformation)
        max_is_set = transformation.max_parallelism or self.settings.max_parallelism
        max_parallelism = max_is_set or default_max_parallelism(parallelism)
        if not parallelism <= max_parallelism <= MAX_PARALLELISM_BOUND:
            raise ProgramError(
                f"operator '{transformation.name}' has parallelism {parallelism} and maximum parallelism "
                f"{max_parallelism}: parallelism <= maximum parallelism <= {MAX_PARALLELISM_BOUND} is required"
            )
        operator = transformation.operator
        operator.name = transformation.name
        if isinstance(operator, SourceOperator):
            operator.interval_ms = self.settings.watermark_interval_ms
        timeout = transformation.buffer_timeout_ms
        self.nodes[transformation.id] = StreamNode(
            id=transformation.id,
            name=transformation.name,
            operator=operator,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            uid=transformation.uid or f"{len(self.nodes)}-{transformation.name}",
            uid_is_users=transformation.uid is not None,
            buffer_timeout_ms=self.settings.buffer_timeout_ms if timeout is None else timeout,
            transformation=transformation,
            max_is_derived=max_is_set is None,
        )
        for index, input in enumerate(transformation.inputs):
            self._connect(input, transformation.id, index)

    def _parallelism(self, transformation: Transformation) -> int:
        """Return the operator's parallelism, or the default.

        The head of an iteration has the parallelism of the operator that feeds it back without partitioning, otherwise
        the parallelism of its input, or, if it is the head of a structured iteration, the default.
        """
        if transformation.parallelism is None and isinstance(transformation, FeedbackTransformation):
            source: Transformation | None = next(iter(transformation.feedback), None)
            while source is not None and source.edge_kind is not None:
                source = None if isinstance(source, PartitionTransformation) else source.inputs[0]
            if source is None or isinstance(source, FeedbackTransformation):
                if isinstance(transformation, SuperstepsTransformation):
                    return self.settings.parallelism
                source = transformation.inputs[0]
                while source.edge_kind is not None:
                    source = source.inputs[0]
            return self._parallelism(source)
        return transformation.parallelism or self.settings.parallelism

    def _heads(self) -> list[FeedbackTransformation]:
        nodes = (node.transformation for node in self.nodes.values())
        return [transformation for transformation in nodes if isinstance(transformation, FeedbackTransformation)]

    def _close(self, head: FeedbackTransformation) -> None:
        """Connect the feedback of an iteration to its head. Raises ProgramError if there is no feedback."""
        if not head.feedback and not (isinstance(head, SuperstepsTransformation) and head.counted):
            raise ProgramError(
                f"the iteration '{head.name}' is not closed: call close_with() on it with the stream that is fed back"
            )
        # Feedback is partitioned like the input by default. Source: Flink docs, "Iterations".
        into = head.inputs[0]
        chosen = into.partitioner if isinstance(into, PartitionTransformation) else None
        role = head.feedback_role if isinstance(head, SuperstepsTransformation) else None
        for feedback in head.feedback:
            self._connect(feedback, head.id, 1, chosen, role=role)
        if isinstance(head, SuperstepsTransformation):
            for counted, role in head.counted:
                self._connect(counted, head.id, 1, CountPartitioner(), role=role)

    def _connect(
        self,
        stream: Transformation,
        target: int,
        input_index: int,
        default: Partitioner | None = None,
        *,
        role: FeedbackRole | None = None,
    ) -> None:
        """Resolve `stream` to its operators. Iterative, like `in_order`.

        If there are several partitionings in sequence, the one nearest to the target applies; if none, `default`.
        """
        stack: list[tuple[Transformation, Partitioner | None, OutputTag[Any] | None]] = [(stream, None, None)]
        while stack:
            source, partitioner, tag = stack.pop()
            source = self._replaced.get(source.id, source)
            if isinstance(source, PartitionTransformation):
                stack.append((source.inputs[0], partitioner or source.partitioner, tag))
            elif isinstance(source, (UnionTransformation, CacheTransformation)):
                stack.extend((input, partitioner, tag) for input in reversed(source.inputs))
            elif isinstance(source, SideOutputTransformation):
                # DataStream.get_side_output checks that its input is an operator, so no other tag is lost here.
                stack.append((source.inputs[0], partitioner, source.tag))
            else:
                if role is not None and not role.carries_records:
                    partitioner = None
                self._add_edge(source, target, input_index, partitioner=partitioner or default, tag=tag, role=role)

    def _add_edge(
        self,
        source: Transformation,
        target: int,
        input_index: int,
        *,
        partitioner: Partitioner | None,
        tag: OutputTag[Any] | None,
        role: FeedbackRole | None,
    ) -> None:
        feedback = input_index == 1 and isinstance(self.nodes[target].transformation, FeedbackTransformation)
        if feedback and partitioner is None:
            self._check_forwarded(source.id, target)
        partitioner = self._partitioner(source.id, target, partitioner)
        if role is not None and role.carries_records:
            partitioner = self._workset_partitioner(partitioner, target)
        self.edges.append(
            StreamEdge(source.id, target, partitioner, tag=tag, input_index=input_index, feedback=feedback, role=role)
        )

    def _workset_partitioner(self, partitioner: Partitioner, head: int) -> Partitioner:
        """Return a partitioner with which each sender has a channel to each subtask of the head."""
        if type(partitioner) is RescalePartitioner:
            raise ProgramError(
                f"the workset of '{self.nodes[head].name}' is fed back by rescale(), which connects only some of the "
                "subtasks: a superstep would not end for all at once. Use rebalance()"
            )
        return WorksetForwardPartitioner() if type(partitioner) is ForwardPartitioner else partitioner

    def _check_chosen_subtasks(self, head: FeedbackTransformation) -> None:
        """Raise ProgramError if the subtasks that feedback chooses are not those of the step.

        The head has another parallelism than the step then, and its records are rebalanced on their way.
        """
        chosen = [edge for edge in self.edges if edge.target == head.id and type(edge.partitioner) is CustomPartitioner]
        rebalanced = [edge for edge in self.edges if edge.source == head.id and edge.target in self.nodes]
        for edge in rebalanced:
            step, node = self.nodes[edge.target], self.nodes[head.id]
            if chosen and type(edge.partitioner) is RebalancePartitioner and step.parallelism != node.parallelism:
                raise ProgramError(
                    f"the subtasks that partition_custom() chooses for what is fed back to '{node.name}' are those of "
                    f"its {node.parallelism} subtasks, but '{step.name}' has {step.parallelism}, and gets the records "
                    f"in turn: call set_parallelism({step.parallelism}) on the result of iterate()"
                )

    def _check_forwarded(self, source: int, head: int) -> None:
        """Raise ProgramError if feedback without partitioning has another parallelism than the head."""
        sender, receiver = self.nodes[source], self.nodes[head]
        if sender.parallelism != receiver.parallelism:
            raise ProgramError(
                f"'{sender.name}' (parallelism {sender.parallelism}) is fed back to '{receiver.name}' (parallelism "
                f"{receiver.parallelism}): give both the same parallelism, or partition what is fed back, for example "
                "close_with(stream.rebalance())"
            )

    def _partitioner(self, source: int, target: int, chosen: Partitioner | None) -> Partitioner:
        senders, receivers = self.nodes[source], self.nodes[target]
        same = senders.parallelism == receivers.parallelism
        if chosen is None:
            return ForwardPartitioner() if same else RebalancePartitioner()
        if chosen.keeps_subtask and not same:
            raise ProgramError(
                f"forward() from '{senders.name}' (parallelism {senders.parallelism}) to '{receivers.name}' "
                f"(parallelism {receivers.parallelism}) requires equal parallelism. Use rescale() or rebalance()"
            )
        return chosen

    def _check_uids(self) -> None:
        seen: dict[str, StreamNode] = {}
        for node in self.nodes.values():
            if not node.uid_is_users:
                self._check_uid_is_derived(node)
            # A user's uid may equal the derived uid of another operator.
            if node.uid in seen:
                raise ProgramError(
                    f"two operators have the uid '{node.uid}': '{seen[node.uid].name}' and '{node.name}'. A uid "
                    "identifies the state of one operator: give each its own"
                )
            seen[node.uid] = node

    def _check_uid_is_derived(self, node: StreamNode) -> None:
        transformation = node.transformation
        if self.settings.auto_generate_uids or transformation.is_nameless or transformation.uid_hash is not None:
            return
        raise ProgramError(
            f"operator '{node.name}' has no uid, and pipeline.auto-generate-uids is false: a changed program might "
            "not find its state. Add .uid('...') to it"
        )

    @property
    def sources(self) -> list[SourceTransformation]:
        """The source transformations, in program order."""
        nodes = (node.transformation for node in self.nodes.values())
        return [transformation for transformation in nodes if isinstance(transformation, SourceTransformation)]

    @property
    def is_bounded(self) -> bool:
        """Whether all sources are bounded."""
        return all(source.source.get_boundedness() is Boundedness.BOUNDED for source in self.sources)

    def as_plan(self) -> dict[str, Any]:
        """Return Flink's plan JSON of the nodes: id, type, contents, parallelism, predecessors with ship strategy."""
        nodes = []
        for node in self.nodes.values():
            entry: dict[str, Any] = {
                "id": node.id,
                "type": node.name,
                "pact": _pact(node.transformation),
                "contents": node.transformation.description or node.name,
                "parallelism": node.parallelism,
            }
            predecessors = [
                {"id": edge.source, "ship_strategy": edge.partitioner.ship_strategy, "side": "second"}
                for edge in self.edges
                if edge.target == node.id
            ]
            if predecessors:
                entry["predecessors"] = predecessors
            nodes.append(entry)
        return {"nodes": nodes}


def _pact(transformation: Transformation) -> str:
    if isinstance(transformation, SourceTransformation):
        return "Data Source"
    return "Data Sink" if getattr(transformation, "is_sink", False) else "Operator"


def in_order(
    sinks: Sequence[Transformation], replaced: Mapping[int, Transformation] = NOTHING_REPLACED
) -> list[Transformation]:
    """Return all transformations upstream of `sinks`, inputs first. Iterative: programs may exceed the stack depth.

    Feedback of an iteration follows its head, and need not lead to a sink. `replaced`: see StreamGraph.
    """
    ordered: dict[int, Transformation] = {}
    stack: list[tuple[Transformation, bool]] = [(sink, False) for sink in reversed(sinks)]
    fed_back: list[Transformation] = []
    while stack or fed_back:
        if not stack:
            stack.append((fed_back.pop(0), False))
        transformation, inputs_done = stack.pop()
        transformation = replaced.get(transformation.id, transformation)
        if transformation.id in ordered:
            continue
        if inputs_done:
            ordered[transformation.id] = transformation
            if isinstance(transformation, FeedbackTransformation):
                fed_back.extend(transformation.feedback)
            if isinstance(transformation, SuperstepsTransformation):
                fed_back.extend(counted for counted, _ in transformation.counted)
        else:
            stack.append((transformation, True))
            stack.extend((input, False) for input in reversed(transformation.inputs))
    return list(ordered.values())
