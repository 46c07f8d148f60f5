"""Chained operators: the chain of a vertex in one subtask. A chunk passes through it by plain calls.

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
from penstock.common.values.copies import uncopied
from penstock.engine.runtime.chunks import Chunk
from penstock.engine.runtime.network.buffer import Watermark, WatermarkStatus
from penstock.engine.runtime.network.output import OutputEdge
from penstock.engine.runtime.operators.function import functions_behind
from penstock.engine.runtime.operators.operator import Input, Operator
from penstock.engine.runtime.task.metrics import OperatorCounters
from penstock.engine.runtime.task.vertex import ChainNode

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.function import UserFunction
    from penstock.engine.runtime.task.context import OperatorContext


DEPTH_MAX = 50
"""The most operators that call each other directly.

Python's stack ends at 1,000 calls, and an operator makes five to eight: 50 operators use at most 400, and the rest is
left for users' functions.
"""


class DeferredInput:
    """Holds calls for `input`, an input deep in a chain, until the task resumes the chain. It keeps their order.

    Each operator whose depth is a multiple of `DEPTH_MAX` has deferred inputs. To the operator before it, such an input
    is an operator that pauses on each chunk (`operators/operator.py`, Pausing).
    """

    waiting = False

    def __init__(self, input: Input) -> None:
        self._input = input
        self._calls: deque[Callable[[], bool]] = deque()
        self.paused = False
        """Whether the input holds calls."""

    def process(self, chunk: Chunk) -> bool:
        return self._defer(partial(self._input.process, chunk))

    def watermark(self, timestamp: int) -> bool:
        return self._defer(partial(self._input.watermark, timestamp))

    def status(self, active: bool) -> bool:
        return self._defer(partial(self._input.status, active))

    def end_input(self) -> bool:
        """End the input directly: the chain ends inputs only when no call is deferred."""
        return self._input.end_input()

    def _defer(self, call: Callable[[], bool]) -> bool:
        self._calls.append(call)
        self.paused = True
        return False

    def resume(self) -> bool:
        """Make the deferred calls. False: still paused, or the caller should stop for now."""
        may_continue, calls = True, self._calls
        while may_continue and calls:
            may_continue = calls.popleft()()
        self.paused = bool(calls)
        return may_continue


ChunkReceiver = Callable[[Any], bool]
"""Receives a chunk. False: the caller should stop for now."""


class Branches:
    """The receivers of one output: operators of the chain, which may change its values, and edges, which don't."""

    def __init__(self) -> None:
        self._inputs: list[ChunkReceiver] = []
        self._edges: list[ChunkReceiver] = []
        self.shares = False
        """Whether all operators of the chain receive the same values: `pipeline.object-reuse`."""
        self.receive: ChunkReceiver = lambda chunk: True
        """Gives a chunk to all receivers."""

    def add_input(self, receive: ChunkReceiver) -> None:
        """Add an operator of the chain."""
        self._inputs.append(receive)
        self._wire()

    def add_edge(self, receive: ChunkReceiver) -> None:
        """Add an edge, which holds records until their buffer is full."""
        self._edges.append(receive)
        self._wire()

    def _wire(self) -> None:
        receivers = [*self._edges, *self._inputs]
        self.receive = receivers[0] if len(receivers) == 1 else self._fork

    def _fork(self, chunk: Chunk) -> bool:
        # Every branch gets the chunk, even if an earlier one has paused.
        may_continue = True
        for receive in self._edges:
            may_continue = receive(chunk) and may_continue
        # An edge retains its values, so they must not be shared even with `pipeline.object-reuse`.
        shares = self.shares and not self._edges
        owner = None if self._edges else self._inputs[-1]
        for receive in self._inputs:
            branch = chunk if shares or receive is owner else chunk.independent()
            may_continue = receive(branch) and may_continue
        return may_continue


class Outlet:
    """The output of one operator: inputs of operators after it in the chain, and edges of the vertex."""

    def __init__(self, counters: OperatorCounters) -> None:
        self._counters = counters
        self._main = Branches()
        self._sides: dict[str, Branches] = {}
        self._inputs: list[Input] = []
        self.edges: list[OutputEdge] = []
        self.boundary: Callable[[OutputTag[Any] | None, ChunkReceiver], ChunkReceiver] = lambda tag, receive: receive
        """Wraps the receivers of edges and sinks: converts values to their declared type."""

    def to_input(
        self, tag: OutputTag[Any] | None, input: Input, counters: OperatorCounters, is_end: bool = False
    ) -> None:
        """Send the main output, or side output `tag`, to `input` of an operator that counts with `counters`.

        `is_end`: values leave the chain there.
        """
        receive = _counted(input, counters)
        self._branches(tag).add_input(self.boundary(tag, receive) if is_end else receive)
        if input not in self._inputs:
            # An input may read the main output and side outputs, but gets each watermark once.
            self._inputs.append(input)

    def to_edge(self, tag: OutputTag[Any] | None, edge: OutputEdge) -> None:
        """Send the main output, or side output `tag`, to `edge`."""
        self._branches(tag).add_edge(self.boundary(tag, edge.emit))
        if edge not in self.edges:
            self.edges.append(edge)

    def _branches(self, tag: OutputTag[Any] | None) -> Branches:
        return self._main if tag is None else self._sides.setdefault(tag.tag_id, Branches())

    def emit(self, chunk: Chunk) -> bool:
        count = len(chunk)
        if not count:
            return True
        self._counters.records_out += count
        return self._main.receive(chunk)

    def emit_side(self, tag: OutputTag[Any], chunk: Chunk) -> bool:
        self._counters.records_out += len(chunk)
        side = self._sides.get(tag.tag_id)
        return side is None or side.receive(chunk)

    def reuse_objects(self) -> None:
        """Share values among the operators of the chain."""
        for branches in (self._main, *self._sides.values()):
            branches.shares = True

    def watermark(self, timestamp: int) -> bool:
        self._counters.output_watermark = timestamp
        may_continue = True
        for input in self._inputs:
            may_continue = input.watermark(timestamp) and may_continue
        for edge in self.edges:
            edge.element(Watermark(timestamp))
        return may_continue

    def status(self, active: bool) -> bool:
        may_continue = True
        for input in self._inputs:
            may_continue = input.status(active) and may_continue
        for edge in self.edges:
            edge.element(WatermarkStatus(active))
        return may_continue


class Chain:
    """The operators of a chain in topological order, driven as one."""

    def __init__(self, nodes: list[ChainNode]) -> None:
        self.nodes = nodes
        self.operators = [node.operator for node in nodes]
        self.head = self.operators[0]
        self.counters = [OperatorCounters(operator.name) for operator in self.operators]
        self.outlets = [Outlet(counters) for counters in self.counters]
        self._opened: list[Operator] = []
        self._selectors: list[tuple[UserFunction, OperatorContext]] = []
        """Key selectors and partitioners of the edges that leave the chain."""
        self._wakers = [o for o in self.operators if type(o).wake_at_ms is not Operator.wake_at_ms]
        self._deferred: dict[tuple[int, int], DeferredInput] = {}
        """Deferred inputs by the indexes of operator and input."""
        self.sections = 1
        """The number of sections of the longest path through the chain, each of at most `DEPTH_MAX` operators."""
        self._pausing = self._find_pausing()

    def _find_pausing(self) -> list[Operator | DeferredInput]:
        """Return the operators that may pause, in topological order, each behind its deferred inputs."""
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
                    is_end = target.is_sink or target.is_before_edge
                    if (depth + 1) % DEPTH_MAX == 0:
                        input = self._deferred.setdefault((link.operator, link.input_index), DeferredInput(input))
                    outlet.to_input(link.tag, input, self.counters[link.operator], is_end)
                else:
                    assert link.edge is not None
                    outlet.to_edge(link.tag, edges[link.edge])
        self.sections = max(depths) // DEPTH_MAX + 1
        self._pausing = self._find_pausing()

    def entry(self, process: ChunkReceiver) -> ChunkReceiver:
        """Return a receiver that gives a chunk to the head by `process`, and then makes the deferred calls."""
        if not self._deferred:
            return process

        def receive(chunk: Chunk) -> bool:
            may_continue = process(chunk)
            return self.deliver() and may_continue

        return receive

    def deliver(self) -> bool:
        """Make deferred calls until an operator pauses. False: still paused, or the caller should stop for now."""
        if not self._deferred:
            return True
        position = self._last_paused()
        while position >= 0 and isinstance(part := self._pausing[position], DeferredInput):
            before, may_continue = position, part.resume()
            position = self._last_paused()
            # Either a part further down holds the chunk now, or an edge has returned False.
            if not may_continue and position <= before:
                return False
        return position < 0

    def _last_paused(self) -> int:
        """Return the index of the last paused part, or -1."""
        return next((index for index in range(len(self._pausing) - 1, -1, -1) if self._pausing[index].paused), -1)

    def reuse_objects(self) -> None:
        """Share values within the chain. Values that leave the chain or are kept are still copied."""
        for node, outlet in zip(self.nodes, self.outlets, strict=True):
            targets = [self.operators[link.operator] for link in node.links if link.operator is not None]
            if not outlet.edges and not any(target.keeps_values for target in targets):
                node.operator.copy_value = uncopied
            outlet.reuse_objects()

    @property
    def paused(self) -> bool:
        """Whether an operator has work left from an earlier step."""
        # Read several times a step: a loop costs half of `any` over a generator.
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
        """Whether the paused operator waits for an event: to resume it now has no effect."""
        # The last paused part is resumed first. Until it continues, no part before it can.
        for part in reversed(self._pausing):
            if part.paused:
                return part.waiting
        return False

    def abandon(self) -> None:
        """Drop the paused work: the task was canceled."""
        for part in self._pausing:
            part.paused = False

    def open(self) -> None:
        """Open the operators from last to first: an operator may emit in `open`, so the next ones have to be open."""
        for operator, outlet in reversed(list(zip(self.operators, self.outlets, strict=True))):
            # Before the call: an operator that fails in `open` may have opened resources, and is closed as well.
            self._opened.append(operator)
            self._open_selectors(operator, outlet)
            operator.open()

    def _open_selectors(self, operator: Operator, outlet: Outlet) -> None:
        for function in functions_behind(call for edge in outlet.edges for call in edge.partitioner.calls()):
            self._selectors.append((function, operator.context))
            function.open(operator.context)

    def endings(self) -> list[Callable[[], bool]]:
        """Return the calls that end the chain, once all inputs of its head have ended. Each may pause the chain.

        The order matters: an operator may finish only after the operators before it have sent everything.
        """
        calls: list[Callable[[], bool]] = [self.head.finish]
        for operator in self.operators[1:]:
            calls.extend(input.end_input for input in operator.inputs())
            calls.append(operator.finish)
        return calls

    def close(self) -> None:
        """Close all opened operators from first to last. Raises the first error after all are closed."""
        first_error: BaseException | None = None
        closes = [operator.close for operator in reversed(self._opened)]
        closes += [partial(function.close, context) for function, context in self._selectors]
        for close in closes:
            try:
                close()
            except RAISED as error:
                first_error = first_error or error
        self._opened.clear()
        self._selectors.clear()
        for operator in self.operators:
            # Also operators that were not opened: their state backends exist since `setup`.
            operator.dispose()
        if first_error is not None:
            raise first_error

    def resume(self) -> bool:
        """Resume paused operators, the last one first. False: still paused, or the caller should stop for now."""
        # A resumed operator emits into the operators after it, so these must have finished their held work before.
        return all(part.resume() for part in reversed(self._pausing) if part.paused)

    def wake_at_ms(self) -> int | None:
        """Return the next processing time (ms) at which an operator is due; while one waits, only its own."""
        wakers = [o for o in self._wakers if o.paused and o.waiting] if self.waiting else self._wakers
        return earliest(*[operator.wake_at_ms() for operator in wakers])

    def due(self, now_ms: int) -> list[Operator]:
        """Return the operators that are due at `now_ms`."""
        return [o for o in self._wakers if (at := o.wake_at_ms()) is not None and at <= now_ms]


def _counted(input: Input, counters: OperatorCounters) -> ChunkReceiver:
    process = input.process

    def receive(chunk: Chunk) -> bool:
        counters.records_in += len(chunk)
        return process(chunk)

    return receive
