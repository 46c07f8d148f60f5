"""A task's part in finding out that a loop has come to rest: the job master asks, the task answers when it has.

A task is at rest if its inputs from outside of the loop have ended, nothing of what it has received is left to be done,
and its output is sent. The job master decides, by what all tasks of the loop have counted
(`engine/jobmaster/loops.py`). A timer in processing time that has not fired is not waited for.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.runtime.network.output import OutputEdge
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.task.events import ProbeLoop
from penstock.engine.runtime.task.inputs import TaskInputs


class LoopProbe:
    """Of one task. `round`: the one that is to be answered; None: none is."""

    def __init__(self, inputs: TaskInputs, edges: Sequence[OutputEdge], operators: Sequence[Operator]) -> None:
        self.round: int | None = None
        self._inputs = inputs
        self._edges = [edge for edge in edges if edge.info.in_loop]
        self._operators = operators

    def asked(self, event: ProbeLoop) -> None:
        """The job master asks."""
        self.round = event.round

    @property
    def at_rest(self) -> bool:
        """Whether nothing can come from it any more, unless something comes by the loop. The task has no work."""
        from_outside = self._inputs.from_outside
        return all(channel.input.has_ended(channel) for channel in from_outside) and not any(
            operator.in_flight for operator in self._operators
        )

    def counted(self) -> tuple[int, int]:
        """How many chunks and elements it has sent and taken within the loop, after all that it has is sent.

        Barriers are not counted: nothing comes of them, and a job whose checkpoints follow each other without a pause
        always has one on its way round.
        """
        for edge in self._edges:
            edge.flush()
        received = sum(channel.items for channel in self._inputs.in_loop)
        return sum(edge.items_sent for edge in self._edges), received
