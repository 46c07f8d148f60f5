"""Fused operators: a vertex's chain in one subtask, wired so that a chunk goes through it by plain calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.api.output_tag import OutputTag
from penstock.runtime.network.elements import Watermark, WatermarkStatus
from penstock.runtime.network.output import OutputEdge
from penstock.runtime.operators.operator import Operator, Timestamps, Values
from penstock.runtime.task.counters import OperatorCounters
from penstock.runtime.task.vertex import ChainNode


class Outlet:
    """What one operator emits into: operators after it in the chain, and edges of the vertex."""

    def __init__(self, counters: OperatorCounters) -> None:
        self._counters = counters
        self._main: list[Callable[[Values, Timestamps], bool]] = []
        self._sides: dict[str, list[Callable[[Values, Timestamps], bool]]] = {}
        self._operators: list[tuple[Operator, OperatorCounters]] = []
        self.leaving: list[OutputEdge] = []

    def to(
        self,
        tag: OutputTag[Any] | None,
        take: Callable[[Values, Timestamps], bool],
        operator: tuple[Operator, OperatorCounters] | None = None,
    ) -> None:
        """One more taker of the main output, or of side output `tag`; an operator is told of time, too."""
        takers = self._main if tag is None else self._sides.setdefault(tag.tag_id, [])
        takers.append(take)
        if operator is not None and operator not in self._operators:
            self._operators.append(operator)

    def emit(self, values: Values, timestamps: Timestamps) -> bool:
        if not values:
            return True
        self._counters.records_out += len(values)
        go_on = True
        for take in self._main:
            go_on = take(values, timestamps) and go_on
        return go_on

    def emit_side(self, tag: OutputTag[Any], values: Values, timestamps: Timestamps) -> bool:
        self._counters.records_out += len(values)
        go_on = True
        for take in self._sides.get(tag.tag_id, ()):
            go_on = take(values, timestamps) and go_on
        return go_on

    def watermark(self, timestamp: int) -> bool:
        go_on = True
        for operator, counters in self._operators:
            counters.watermark = timestamp
            go_on = operator.watermark(timestamp) and go_on
        for edge in self.leaving:
            edge.element(Watermark(timestamp))
        return go_on

    def status(self, active: bool) -> None:
        for operator, _ in self._operators:
            operator.status(active)
        for edge in self.leaving:
            edge.element(WatermarkStatus(active))


class Chain:
    """The operators of a chain in topological order, as one."""

    def __init__(self, nodes: list[ChainNode]) -> None:
        self.nodes = nodes
        self.operators = [node.operator for node in nodes]
        self.head = self.operators[0]
        self.counters = [OperatorCounters(operator.name) for operator in self.operators]
        self.outlets = [Outlet(counters) for counters in self.counters]
        self._opened: list[Operator] = []
        self._wakers = [o for o in self.operators if type(o).wake_at_ms is not Operator.wake_at_ms]

    def connect(self, edges: dict[int, OutputEdge]) -> None:
        """Wire every outlet to the operators and edges that its links name."""
        for node, outlet in zip(self.nodes, self.outlets, strict=True):
            leaving: list[OutputEdge] = []
            for link in node.links:
                if link.operator is not None:
                    operator, counters = self.operators[link.operator], self.counters[link.operator]
                    outlet.to(link.tag, _counted(operator, counters), (operator, counters))
                else:
                    assert link.edge is not None
                    edge = edges[link.edge]
                    outlet.to(link.tag, edge.emit)
                    if edge not in leaving:
                        leaving.append(edge)
            outlet.leaving = leaving

    @property
    def paused(self) -> bool:
        """Whether an operator has work left from an earlier step."""
        return any(operator.paused for operator in self.operators)

    def open(self) -> None:
        """Open from the last to the first, so that whoever emits finds its takers open."""
        for operator in reversed(self.operators):
            self._opened.append(operator)
            operator.open()

    def close(self) -> None:
        """Close all that was opened, from the first to the last; the first error is raised when all are closed."""
        first_error: Exception | None = None
        for operator in reversed(self._opened):
            try:
                operator.close()
            except Exception as error:
                first_error = first_error or error
        self._opened.clear()
        for operator in self.operators:
            operator.dispose()
        if first_error is not None:
            raise first_error

    def resume(self) -> bool:
        """Go on with what was paused, the last operator first. False: still paused, or stop for now."""
        return all(operator.resume() for operator in reversed(self.operators) if operator.paused)

    def wake_at_ms(self) -> int | None:
        """The next processing time at which an operator wants to be called."""
        wakes = [at for at in (operator.wake_at_ms() for operator in self._wakers) if at is not None]
        return min(wakes, default=None)

    def due(self, now_ms: int) -> list[Operator]:
        """The operators whose time has come."""
        return [o for o in self._wakers if (at := o.wake_at_ms()) is not None and at <= now_ms]


def _counted(operator: Operator, counters: OperatorCounters) -> Callable[[Values, Timestamps], bool]:
    process = operator.process

    def take(values: Values, timestamps: Timestamps) -> bool:
        counters.records_in += len(values)
        return process(values, timestamps)

    return take
