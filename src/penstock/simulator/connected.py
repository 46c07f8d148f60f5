"""An operator with several inputs for simulated programs, and programs that have it in place of their unions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.runtime.operators.inputs import OperatorInput, inputs_of
from penstock.runtime.operators.operator import Operator, Timestamps, Values
from penstock.simulator.programs import Node, Program

if TYPE_CHECKING:
    from penstock.runtime.operators.operator import Output
    from penstock.runtime.task.context import OperatorContext


class ConnectOperator(Operator):
    """Emits what arrives on any of its inputs, so that a connection gives what a union gives."""

    def __init__(self, name: str, input_count: int) -> None:
        super().__init__(name)
        self._input_count = input_count
        self._ended: list[int] = []

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Make the inputs."""
        super().setup(context, output)
        self._inputs = inputs_of(self, *[self.process] * self._input_count)

    def inputs(self) -> Sequence[OperatorInput]:
        """One for each stream."""
        return self._inputs

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        """Emit a chunk of any input."""
        assert len(self._ended) < self._input_count, f"{self.name}: records after the end of all inputs"
        return self.output.emit(values, timestamps)

    def end_input(self, index: int = 0) -> bool:
        """Each input ends once."""
        assert index not in self._ended, f"{self.name}: input {index} ended twice"
        self._ended.append(index)
        return True

    def finish(self) -> bool:
        """All inputs have ended before."""
        assert len(self._ended) == self._input_count, f"{self.name} finishes, and only {self._ended} have ended"
        return True


def connected(program: Program) -> Program:
    """The program with an operator of several inputs in place of each union, where parallelisms allow it."""
    nodes = [_connected(program, node) if node.kind == "union" else node for node in program.nodes]
    return dataclasses.replace(program, nodes=tuple(nodes))


def _connected(program: Program, node: Node) -> Node:
    inputs = [program.node(id) for id in node.inputs]
    if any(_is_forwarded(program, input) for input in inputs):
        # What forward() leads to must have the parallelism of what it comes from.
        return node
    parallelism = min(1 + node.id % 3, program.max_parallelism or 3)
    return dataclasses.replace(node, kind="connect", parallelism=parallelism)


def _is_forwarded(program: Program, node: Node) -> bool:
    if node.kind == "partition" and node.settings["how"] != "forward":
        return False
    forwarded = node.kind == "partition"
    through = node.kind in ("partition", "union", "side", "late")
    return forwarded or (through and any(_is_forwarded(program, program.node(id)) for id in node.inputs))
