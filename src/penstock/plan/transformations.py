"""What each call of the DataStream API leaves behind: a transformation that knows its inputs.

Sources and operators will run; partitionings, unions and side outputs only say how those are connected.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from penstock.api.output_tag import OutputTag
from penstock.api.source import Source
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.runtime.network.partitioners import Partitioner
from penstock.runtime.operators.operator import Operator


class Chaining(enum.Enum):
    """With which neighbours an operator may be fused."""

    ALWAYS = "always"
    HEAD = "only with those after it"
    NEVER = "never"


class Transformation:
    """A node of the program. `parallelism` None: that of the environment when the job is submitted."""

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
        """Why the parallelism can't be another than 1, if it can't."""
        self.uid: str | None = None
        self.uid_hash: str | None = None
        self.description: str | None = None
        self.buffer_timeout_ms: int | None = None
        self.chaining = Chaining.ALWAYS
        self.slot_sharing_group: str | None = None


class SourceTransformation(Transformation):
    """A source with its watermark strategy."""

    def __init__(
        self,
        id: int,
        name: str,
        source: Source[Any],
        strategy: WatermarkStrategy,
        output_type: Any,
        parallelism: int | None,
    ) -> None:
        super().__init__(id, name, [], output_type, parallelism)
        self.source = source
        self.strategy = strategy


class OperatorTransformation(Transformation):
    """An operator; `operator` is what its subtasks will run, unopened."""

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
        super().__init__(id, name, inputs, output_type, parallelism)
        self.operator = operator
        self.is_sink = is_sink


class PartitionTransformation(Transformation):
    """Says how records go from its input to whatever reads it."""

    def __init__(self, id: int, input: Transformation, partitioner: Partitioner) -> None:
        super().__init__(id, partitioner.ship_strategy.lower(), [input], input.output_type)
        self.partitioner = partitioner


class UnionTransformation(Transformation):
    """Several streams as one."""

    def __init__(self, id: int, inputs: Sequence[Transformation]) -> None:
        super().__init__(id, "union", inputs, inputs[0].output_type)


class SideOutputTransformation(Transformation):
    """The side output of an operator."""

    def __init__(self, id: int, input: Transformation, tag: OutputTag[Any]) -> None:
        super().__init__(id, f"side output {tag.tag_id}", [input], tag.type_info)
        self.tag = tag
