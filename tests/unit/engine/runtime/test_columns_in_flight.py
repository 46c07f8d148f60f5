"""What comes to be in flight before a function of batches, in rows: two real slots, by a virtual clock."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from penstock.common import Types, WatermarkStrategy
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.ranges import RangeSplit
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.pickling import dump_level, load_level
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.events import AssignSplits, Opaque
from penstock.engine.runtime.task.slot import Slot
from penstock.service.client.plan_executor import PlanExecutor

NUMBER = Types.ROW_NAMED(["n"], [Types.LONG()])
ROWS = 1_000_000
PIPE_MS = 5


class World:
    """The clock, and the rows that the function has got."""

    now_ns = 1_700_000_000_000 * 1_000_000
    processed = 0
    calls = 0


class Costly:
    """Takes `call_ms` for each call, and `row_ms` for each row."""

    def __init__(self, call_ms: float, row_ms: float) -> None:
        self.call_ms = call_ms
        self.row_ms = row_ms

    def __call__(self, batch: Any) -> Any:
        """Let time pass."""
        rows = len(batch["n"])
        World.processed += rows
        World.calls += 1
        World.now_ns += int((self.call_ms + rows * self.row_ms) * 1e6)
        return batch


class Line:
    """A source of columns, a pipe, and a slot with the function."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        World.processed = World.calls = 0
        executor = PlanExecutor()
        env = StreamExecutionEnvironment(executor=executor)
        env.set_parallelism(1)
        source = DataGeneratorSource(lambda i: {"n": i}, ROWS, None)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", type_info=NUMBER)
        costly = numbers.as_columns(NUMBER).rebalance().map_batches(function, "numpy")
        costly.filter_batches(lambda batch: numpy.zeros(len(batch["n"]), bool), "numpy").print()
        env.execute("line")
        (graph,) = executor.graphs
        made = Environment(lambda: World.now_ns // 1_000_000, lambda: World.now_ns)
        other = Environment(lambda: World.now_ns // 1_000_000, lambda: World.now_ns)
        levels = [
            dataclasses.replace(load_level(dump_level(level)), in_flight_ms=1_000) for level in graph.levels("0" * 32)
        ]
        self.source, self.target = Slot(levels[0], 0, made), Slot(levels[1], 0, other)
        for slot in (self.source, self.target):
            slot.open()
        self.source.handle(graph.sources[0].id, AssignSplits(Opaque([RangeSplit(0, 0, ROWS)])))
        self.pipe: deque[tuple[int, bytes]] = deque()
        (task,) = self.source.tasks.values()
        self.emitted = task.counters.operators[-1]

    def run(self, ms: float) -> int:
        """Let time pass. Returns the most rows that were in flight, on the way or waiting."""
        most, until_ns = 0, World.now_ns + int(ms * 1e6)
        while World.now_ns < until_ns:
            World.now_ns += 1_000_000
            now_ms = World.now_ns // 1_000_000
            self.source.step()
            self.pipe.extend((now_ms + PIPE_MS, buffer) for _, buffer in self.source.outbox.take())
            while self.pipe and self.pipe[0][0] <= now_ms:
                self.target.receive(self.pipe.popleft()[1])
            if not self.target.step():
                self.target.was_idle(1_000_000)
            for _, advice in self.target.outgoing_advice():
                self.source.receive_advice(advice)
            most = max(most, self.emitted.records_out - World.processed)
        return most


@pytest.mark.parametrize("row_ms", [10, 50, 200])
def test_before_a_slow_function_there_are_seconds_in_flight(row_ms: float) -> None:
    """A barrier, or a cancellation, would wait for two buffers of 256 rows, which take 26 s at 50 ms each."""
    line = Line(Costly(0, row_ms))
    # What the source sent before it knew of the function is processed first.
    line.run(max(30_000, 600 * row_ms))
    assert line.run(60_000) * row_ms <= 3_000


def test_a_call_that_costs_much_by_itself_gets_large_batches() -> None:
    """A model of 100 ms a call would get single rows, ten a second."""
    line = Line(Costly(100, 0.01))
    line.run(10_000)
    World.processed = World.calls = 0
    line.run(10_000)
    assert World.processed / World.calls >= 250
