"""Drops the events that a pattern passes over, before the exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cep.operators.checked_bits import checked_bits
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.operator import Operator, Output
from penstock.engine.runtime.task.metrics import OperatorMetricGroup

if TYPE_CHECKING:
    from typing import Any

    from penstock.cep.automaton import Automaton
    from penstock.engine.runtime.task.context import OperatorContext


class PatternFilterOperator(Operator):
    """Keeps the events that meet a condition which matters to some state of the automaton.

    `timeouts`: whether they have a receiver.
    """

    is_before_edge = True

    def __init__(self, name: str, automaton: Automaton[Any], timeouts: bool) -> None:
        super().__init__(name)
        self.automaton = automaton
        self.timeouts = timeouts
        self.dropped = 0
        self._may_drop: dict[int, bool] = {}

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.metrics = OperatorMetricGroup(context.counters)
        self.metrics.gauge("numRecordsDropped", lambda: self.dropped)

    def process(self, chunk: Rows) -> bool:
        values = chunk.values
        bits = checked_bits(self.context, self.automaton, values)
        dropped = {one for one in set(bits) if self.may_drop(one)}
        if not dropped:
            return self.output.emit(chunk)
        kept = [index for index, one in enumerate(bits) if one not in dropped]
        self.dropped += len(values) - len(kept)
        return not kept or self.output.emit(chunk.selected(kept))

    def may_drop(self, bits: int) -> bool:
        """Return whether an event with these bits changes nothing."""
        known = self._may_drop.get(bits)
        if known is None:
            known = self._may_drop[bits] = self.automaton.may_drop(bits, self.timeouts)
        return known
