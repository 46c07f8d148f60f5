"""Define transformations: the nodes that calls of the DataStream API create, each with its inputs.

Sources and operators are deployed; partitionings, unions and side outputs only define how they are connected.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.api.output_tag import OutputTag
from penstock.api.source import Source
from penstock.common.values.shallow_copy import shallow_copy
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.engine.plan.call_capture import captured
from penstock.engine.runtime.network.edge import FeedbackRole
from penstock.engine.runtime.network.partitioners import Partitioner
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.source import SourceOperator


class Chaining(enum.Enum):
    """The neighbors with which an operator may be chained."""

    ALWAYS = "always"
    HEAD = "only with those after it"
    NEVER = "never"


@dataclass(frozen=True)
class Relation:
    """The meaning of a transformation as relational algebra: an operation on `inputs` (`relations.py`)."""

    inputs: tuple[Transformation, ...]

    is_work = True
    """Whether it is worth a DataFrame: not if it only selects columns."""
    calls = False
    """Whether it calls functions of the user, which must not be called again for a second reader."""
    sets_order = False
    keeps_order = False
    """Whether its results come in an order: one that it has set, or that of its inputs."""
    depends_on_order = False
    """Whether its results are others in another order of the rows of one key."""

    @property
    def varies(self) -> bool:
        """Whether its results may be others when they are computed again: rows come from an exchange in any order."""
        return False

    @property
    def has_partitions(self) -> bool:
        """Whether its consumers see which rows are in which subtask, and in which order."""
        return False

    def reason_for_operators(self) -> str | None:
        """Return why operators have to run it, given the types of its inputs; None if DataFrames can."""
        return None

    def is_timed(self, are_timed: Sequence[bool]) -> bool:
        """Return whether its results have the last possible timestamp, and not none. `are_timed`: the inputs."""
        return are_timed[0]


class Transformation:
    """A node of the program. `parallelism`: None is the environment's default at submission."""

    edge_kind: str | None = None
    """The name of its kind in messages, if it only defines edges between operators; None if it is deployed."""

    def __init__(
        self,
        id: int,
        name: str,
        inputs: Sequence[Transformation],
        output_type: Any = None,
        parallelism: int | None = None,
    ) -> None:
        self.id = id
        self.name = name
        self.inputs = list(inputs)
        self.output_type = output_type
        self.parallelism = parallelism
        self.max_parallelism: int | None = None
        self.parallelism_fixed: str | None = None
        """The reason why the parallelism must be 1, or None."""
        self.uid: str | None = None
        self.uid_hash: str | None = None
        self.is_nameless = False
        """Whether it is invisible to the user, who cannot give it a uid. It has no state."""
        self.description: str | None = None
        self.buffer_timeout_ms: int | None = None
        self.chaining = Chaining.ALWAYS
        self.slot_sharing_group: str | None = None
        self.relation: Relation | None = None
        """Its meaning as relational algebra, if it has one: see `relations.py`."""


class DeployedTransformation(Transformation):
    """An operator. Subtasks run copies of `operator`, an unopened instance, as it is now."""

    def __init__(
        self,
        id: int,
        name: str,
        inputs: Sequence[Transformation],
        operator: Operator,
        output_type: Any,
        parallelism: int | None,
    ) -> None:
        super().__init__(id, name, inputs, output_type=output_type, parallelism=parallelism)
        self.operator = operator
        if operator.captured is None:
            operator.captured = captured(operator)


class ColumnChoice(Protocol):
    """How an operator that is declared on rows may run on columns (`plan/automatic_columns.py`)."""

    def reason_for_rows(self) -> str | None:
        """Return why it can't; None if it can."""

    def operator(self, name: str) -> Operator:
        """Return the operator on columns, which takes rows as well."""

    def conversion(self) -> Operator:
        """Return the conversion before its exchange."""


class SourceTransformation(DeployedTransformation):
    """A source with its watermark strategy."""

    operator: SourceOperator

    def __init__(
        self,
        id: int,
        name: str,
        source: Source[Any],
        strategy: WatermarkStrategy,
        output_type: Any,
        parallelism: int | None,
    ) -> None:
        # The graph sets the interval when the program is submitted. The driver uses a copy of the source as it is now,
        # including the attributes that it does not pickle: it assigns the splits.
        of_driver = shallow_copy(source, copy_containers=True)
        operator = SourceOperator(name, of_driver, shallow_copy(strategy), interval_ms=0)
        operator.given = source
        super().__init__(id, name, inputs=[], operator=operator, output_type=output_type, parallelism=parallelism)

    @property
    def source(self) -> Source[Any]:
        """The source that it reads."""
        return self.operator.source


class OperatorTransformation(DeployedTransformation):
    """An operator that reads streams."""

    def __init__(
        self,
        id: int,
        name: str,
        inputs: Sequence[Transformation],
        operator: Operator,
        output_type: Any = None,
        parallelism: int | None = None,
        is_sink: bool = False,
    ) -> None:
        super().__init__(id, name, inputs, operator=operator, output_type=output_type, parallelism=parallelism)
        self.is_sink = is_sink
        self.on_columns: ColumnChoice | None = None
        """Whether and how it could run on columns, for an operator on rows that has a choice."""


class PartitionTransformation(Transformation):
    """Define how records of its input are distributed to its consumers."""

    edge_kind = "a partitioned stream"

    def __init__(self, id: int, input: Transformation, partitioner: Partitioner) -> None:
        super().__init__(id, partitioner.ship_strategy.lower(), [input], input.output_type)
        self.partitioner = partitioner


class FeedbackTransformation(OperatorTransformation):
    """The head of an iteration. It reads its input and the streams in `feedback`."""

    def __init__(self, id: int, name: str, input: Transformation, operator: Operator) -> None:
        super().__init__(id, name, [input], operator, output_type=input.output_type)
        self.feedback: list[Transformation] = []
        self.chaining = Chaining.HEAD


class SuperstepsTransformation(FeedbackTransformation):
    """The head of a structured iteration. Of the streams in `counted` it gets only the numbers of records."""

    def __init__(self, id: int, name: str, input: Transformation, operator: Operator) -> None:
        super().__init__(id, name, input, operator)
        self.counted: list[tuple[Transformation, FeedbackRole]] = []
        self.feedback_role = FeedbackRole.WORKSET
        self.iteration = id
        """The id of its iteration: the heads of several variables have the same."""


class UnionTransformation(Transformation):
    """Merge several streams into one."""

    edge_kind = "a union"

    def __init__(self, id: int, inputs: Sequence[Transformation]) -> None:
        super().__init__(id, "union", inputs, inputs[0].output_type)


class CacheTransformation(Transformation):
    """A cached stream: the input that it is computed from, or a source of the records that a job has cached."""

    edge_kind = "a cached stream"

    def __init__(self, id: int, input: Transformation) -> None:
        super().__init__(id, "cache", [input], input.output_type)
        self._computed_from = input

    @property
    def is_filled(self) -> bool:
        """Whether a job has computed it."""
        return self.inputs[0] is not self._computed_from

    def fill(self, source: SourceTransformation) -> None:
        """Read the cached records from `source` from now on."""
        self.inputs = [source]

    def invalidate(self) -> None:
        """Compute it again when it is needed."""
        self.inputs = [self._computed_from]


class SideOutputTransformation(Transformation):
    """A side output of an operator."""

    edge_kind = "a side output"

    def __init__(self, id: int, input: Transformation, tag: OutputTag[Any]) -> None:
        super().__init__(id, f"side output {tag.tag_id}", [input], tag.type_info)
        self.tag = tag
