"""Chained operators: the chain of a vertex in one subtask, wired so that a chunk passes through it by plain calls.

Edges of the vertex lead to the inputs of the chain's head. Below the head the chain is a tree: each operator is fed by
one link, so a paused operator has one caller, which stops when the operator returns False (`operators/operator.py`,
Pausing). Long chains are interrupted by deferred inputs, which pause as an operator does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.api.output_tag import OutputTag
from penstock.common.functions.user_calls import RAISED
from penstock.common.time.earliest import earliest
from penstock.common.values.copies import as_it_is, own_copies
from penstock.engine.runtime.network.buffer import Watermark, WatermarkStatus
from penstock.engine.runtime.network.output import OutputEdge
from penstock.engine.runtime.operators.function import functions_behind
from penstock.engine.runtime.operators.operator import Input, Operator, Timestamps, Values
from penstock.engine.runtime.task.metrics import OperatorCounters
from penstock.engine.runtime.task.vertex import ChainNode

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.function import UserFunction
    from penstock.engine.runtime.task.context import OperatorContext


# An input deep in a chain, which takes what it is given when the task resumes the chain.
#
# Operators call each other, so a chain of thousands would be as deep in Python's stack, which ends at 1,000 calls. Each
# operator whose depth is a multiple of `DEPTH_MAX` has such an input, and what is before it sees an operator that
# pauses on each chunk (`operators/operator.py`, Pausing).

DEPTH_MAX = 50
"""Operators that call each other. An operator takes five to eight calls: at most 400 of 1,000, the rest is users'."""


class DeferredInput:
    """Stands before `input`. Chunks, watermarks and statuses reach it in the order in which they came."""

    waiting = False

    def __init__(self, input: Input) -> None:
        self._input = input
        self._calls: deque[Callable[[], bool]] = deque()
        self.paused = False
        """Whether it holds something."""

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        return self._defer(partial(self._input.process, values, timestamps))

    def watermark(self, timestamp: int) -> bool:
        return self._defer(partial(self._input.watermark, timestamp))

    def status(self, active: bool) -> bool:
        return self._defer(partial(self._input.status, active))

    def end_input(self) -> bool:
        """The chain ends inputs when nothing is deferred: at once."""
        return self._input.end_input()

    def _defer(self, call: Callable[[], bool]) -> bool:
        self._calls.append(call)
        self.paused = True
        return False

    def resume(self) -> bool:
        """Give what it holds to the input. False: still paused, or stop for now."""
        go_on, calls = True, self._calls
        while go_on and calls:
            go_on = calls.popleft()()
        self.paused = bool(calls)
        return go_on


Take = Callable[[Values, Timestamps], bool]


class Branches:
    """Where one output goes: operators of the chain, which may change what they are given, and edges, which don't."""

    def __init__(self) -> None:
        self._inputs: list[Take] = []
        self._edges: list[Take] = []
        self.shares = False
        """Whether operators of the chain are given the same values, as `pipeline.object-reuse` wants."""
        self.take: Take = lambda values, timestamps: True
        """Gives a chunk to all of them."""

    def add_input(self, take: Take) -> None:
        """An operator of the chain takes this output."""
        self._inputs.append(take)
        self._wire()

    def add_edge(self, take: Take) -> None:
        """An edge takes this output, and holds its records until their buffer is full."""
        self._edges.append(take)
        self._wire()

    def _wire(self) -> None:
        takes = [*self._edges, *self._inputs]
        self.take = takes[0] if len(takes) == 1 else self._fork

    def _fork(self, values: Values, timestamps: Timestamps) -> bool:
        # Every branch gets the chunk, even if an earlier one has paused.
        go_on = True
        for take in self._edges:
            go_on = take(values, timestamps) and go_on
        # An edge retains its values, so they must not be shared, whatever the setting says.
        shares = self.shares and not self._edges
        owner = None if self._edges else self._inputs[-1]
        for take in self._inputs:
            go_on = take(values if shares or take is owner else own_copies(values), timestamps) and go_on
        return go_on


class Outlet:
    """What one operator emits into: inputs of operators after it in the chain, and edges of the vertex."""

    def __init__(self, counters: OperatorCounters) -> None:
        self._counters = counters
        self._main = Branches()
        self._sides: dict[str, Branches] = {}
        self._inputs: list[Input] = []
        self.edges: list[OutputEdge] = []
        self.boundary: Callable[[OutputTag[Any] | None, Take], Take] = lambda tag, take: take
        """What stands before edges and sinks: it makes values ones of their declared type."""

    def to_input(
        self, tag: OutputTag[Any] | None, input: Input, counters: OperatorCounters, is_sink: bool = False
    ) -> None:
        """Send the main output, or side output `tag`, to `input` of an operator that counts with `counters`."""
        take = _counted(input, counters)
        self._branches(tag).add_input(self.boundary(tag, take) if is_sink else take)
        if input not in self._inputs:
            # An input may read the main output and side outputs. It gets each watermark once nevertheless.
            self._inputs.append(input)

    def to_edge(self, tag: OutputTag[Any] | None, edge: OutputEdge) -> None:
        """Send the main output, or side output `tag`, to `edge`."""
        self._branches(tag).add_edge(self.boundary(tag, edge.emit))
        if edge not in self.edges:
            self.edges.append(edge)

    def _branches(self, tag: OutputTag[Any] | None) -> Branches:
        return self._main if tag is None else self._sides.setdefault(tag.tag_id, Branches())

    def emit(self, values: Values, timestamps: Timestamps) -> bool:
        if not values:
            return True
        self._counters.records_out += len(values)
        return self._main.take(values, timestamps)

    def emit_side(self, tag: OutputTag[Any], values: Values, timestamps: Timestamps) -> bool:
        self._counters.records_out += len(values)
        side = self._sides.get(tag.tag_id)
        return side is None or side.take(values, timestamps)

    def reuse_objects(self) -> None:
        """Share values among the operators of the chain."""
        for branches in (self._main, *self._sides.values()):
            branches.shares = True

    def watermark(self, timestamp: int) -> bool:
        self._counters.output_watermark = timestamp
        go_on = True
        for input in self._inputs:
            go_on = input.watermark(timestamp) and go_on
        for edge in self.edges:
            edge.element(Watermark(timestamp))
        return go_on

    def status(self, active: bool) -> bool:
        go_on = True
        for input in self._inputs:
            go_on = input.status(active) and go_on
        for edge in self.edges:
            edge.element(WatermarkStatus(active))
        return go_on


class Chain:
    """The operators of a chain in topological order, as one."""

    def __init__(self, nodes: list[ChainNode]) -> None:
        self.nodes = nodes
        self.operators = [node.operator for node in nodes]
        self.head = self.operators[0]
        self.counters = [OperatorCounters(operator.name) for operator in self.operators]
        self.outlets = [Outlet(counters) for counters in self.counters]
        self._opened: list[Operator] = []
        self._choosing: list[tuple[UserFunction, OperatorContext]] = []
        """Key selectors and partitioners of the edges that leave the chain."""
        self._wakers = [o for o in self.operators if type(o).wake_at_ms is not Operator.wake_at_ms]
        self._deferred: dict[tuple[int, int], DeferredInput] = {}
        """By operator and input."""
        self.stretches = 1
        """Of how many parts the longest path through the chain is, each of at most `DEPTH_MAX` operators."""
        self._pausing = self._that_may_pause()

    def _that_may_pause(self) -> list[Operator | DeferredInput]:
        """Operators that may pause, in topological order, each behind its deferred inputs."""
        ordered: list[Operator | DeferredInput] = []
        for index, operator in enumerate(self.operators):
            ordered += [deferred for (target, _), deferred in self._deferred.items() if target == index]
            if type(operator).resume is not Operator.resume:
                ordered.append(operator)
        return ordered

    def connect(self, edges: dict[int, OutputEdge]) -> None:
        """Wire each outlet to the inputs and edges that its links name, after the `setup` of all operators."""
        depths = [0] * len(self.nodes)
        for node, outlet, depth in zip(self.nodes, self.outlets, depths, strict=True):
            for link in node.links:
                if link.operator is not None:
                    depths[link.operator] = depth + 1
                    target = self.operators[link.operator]
                    input = target.inputs()[link.input_index]
                    if (depth + 1) % DEPTH_MAX == 0:
                        input = self._deferred.setdefault((link.operator, link.input_index), DeferredInput(input))
                    outlet.to_input(link.tag, input, self.counters[link.operator], target.is_sink)
                else:
                    assert link.edge is not None
                    outlet.to_edge(link.tag, edges[link.edge])
        self.stretches = max(depths) // DEPTH_MAX + 1
        self._pausing = self._that_may_pause()

    def entry(self, process: Take) -> Take:
        """The call that gives a chunk to the head by `process`, and what is deferred then to its inputs."""
        if not self._deferred:
            return process

        def take(values: Values, timestamps: Timestamps) -> bool:
            go_on = process(values, timestamps)
            return self.deliver() and go_on

        return take

    def deliver(self) -> bool:
        """Give what is deferred to its inputs, until an operator pauses. False: still paused, or stop for now."""
        if not self._deferred:
            return True
        position = self._last_paused()
        while position >= 0 and isinstance(part := self._pausing[position], DeferredInput):
            before, go_on = position, part.resume()
            position = self._last_paused()
            # One further down holds what this one was given, or else an edge says stop.
            if not go_on and position <= before:
                return False
        return position < 0

    def _last_paused(self) -> int:
        """Its index; -1: none is paused."""
        return next((index for index in range(len(self._pausing) - 1, -1, -1) if self._pausing[index].paused), -1)

    def reuse_objects(self) -> None:
        """Pass values on as they are within the chain. What leaves it, or is kept, is copied all the same."""
        for node, outlet in zip(self.nodes, self.outlets, strict=True):
            targets = [self.operators[link.operator] for link in node.links if link.operator is not None]
            if not outlet.edges and not any(target.keeps_values for target in targets):
                node.operator.own = as_it_is
            outlet.reuse_objects()

    @property
    def paused(self) -> bool:
        """Whether an operator has work left from an earlier step."""
        # Asked several times a step: a loop costs half of `any` over a generator.
        for part in self._pausing:  # noqa: SIM110
            if part.paused:
                return True
        return False

    @property
    def paused_behind_head(self) -> bool:
        """Whether an operator other than the head has work left."""
        return any(part.paused for part in self._pausing if part is not self.head)

    @property
    def waiting(self) -> bool:
        """Whether what is paused waits for something to come: to resume it now does nothing."""
        # The last one that is paused is the first to be resumed: before it has gone on, none before it can.
        for part in reversed(self._pausing):
            if part.paused:
                return part.waiting
        return False

    def abandon(self) -> None:
        """The task is cancelled: what is paused is not resumed."""
        for part in self._pausing:
            part.paused = False

    def open(self) -> None:
        """Open from the last to the first: an operator may emit from `open`, so those after it have to be open."""
        for operator, outlet in reversed(list(zip(self.operators, self.outlets, strict=True))):
            # Before the call: what fails to open may have opened a part, and is closed, too.
            self._opened.append(operator)
            self._open_choosing(operator, outlet)
            operator.open()

    def _open_choosing(self, operator: Operator, outlet: Outlet) -> None:
        for function in functions_behind(call for edge in outlet.edges for call in edge.partitioner.calls()):
            self._choosing.append((function, operator.context))
            function.open(operator.context)

    def endings(self) -> list[Callable[[], bool]]:
        """The calls that end the chain, once all inputs of its head have ended. Each may pause the chain.

        In this order, because an operator may finish only when those before it have sent everything.
        """
        calls: list[Callable[[], bool]] = [self.head.finish]
        for operator in self.operators[1:]:
            calls.extend(input.end_input for input in operator.inputs())
            calls.append(operator.finish)
        return calls

    def close(self) -> None:
        """Close all that was opened, from the first to the last; the first error is raised when all are closed."""
        first_error: BaseException | None = None
        closes = [operator.close for operator in reversed(self._opened)]
        closes += [partial(function.close, context) for function, context in self._choosing]
        for close in closes:
            try:
                close()
            except RAISED as error:
                first_error = first_error or error
        self._opened.clear()
        self._choosing.clear()
        for operator in self.operators:
            # Also of operators that were not opened: what holds state exists since `setup`.
            operator.dispose()
        if first_error is not None:
            raise first_error

    def resume(self) -> bool:
        """Resume what is paused, the last operator first. False: still paused, or stop for now."""
        # The last first: an operator that resumes emits into those after it, which must have finished what they hold.
        return all(part.resume() for part in reversed(self._pausing) if part.paused)

    def wake_at_ms(self) -> int | None:
        """The next processing time (ms) at which an operator wants to be called; while one waits, only that one."""
        wakers = [o for o in self._wakers if o.paused and o.waiting] if self.waiting else self._wakers
        return earliest(*[operator.wake_at_ms() for operator in wakers])

    def due(self, now_ms: int) -> list[Operator]:
        """The operators that want to be called at `now_ms`."""
        return [o for o in self._wakers if (at := o.wake_at_ms()) is not None and at <= now_ms]


def _counted(input: Input, counters: OperatorCounters) -> Take:
    process = input.process

    def take(values: Values, timestamps: Timestamps) -> bool:
        counters.records_in += len(values)
        return process(values, timestamps)

    return take
