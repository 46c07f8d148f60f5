"""A batched job in one thread: level after level, with rows sorted between levels like by Spark.

Rows of a slot arrive in any order and are sorted by the first bytes of their buffers, as in
`hosts/spark/driver/batched_job.py`. Some slots run twice, with other budgets: the output of a task must not depend on
where it was interrupted.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any

from penstock.common.types import Row
from penstock.common.values.exact_floats import exact
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.pickling import dump_level, load_level
from penstock.engine.plan.static_splits import assign_statically
from penstock.engine.runtime import chunks
from penstock.engine.runtime.batch.slot_run import run_to_end
from penstock.engine.runtime.network.buffer import (
    OUTCOME_EDGE,
    SORT_PREFIX_BYTES,
    decode_header,
    decode_items,
    decode_message,
)
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.events import Result
from penstock.engine.runtime.task.slot import Slot
from penstock.hosts.simulator.checkers import ChannelChecks, TaskChecks
from penstock.hosts.simulator.circumstances import FIRST_RECORDS, Circumstances, fit_sizes
from penstock.hosts.simulator.clock import Clock
from penstock.hosts.simulator.event_loop import SteppedEventLoops
from penstock.hosts.simulator.key_order import PARAMETER
from penstock.hosts.simulator.outside import Outside
from penstock.hosts.simulator.report import Trace
from penstock.hosts.simulator.results import collecting_sinks, committers_of
from penstock.hosts.simulator.scheduler import Action, Scheduler
from penstock.hosts.simulator.step_limit import StepLimit
from penstock.hosts.simulator.stores import MemorySpill

_RUN_AGAIN = 0.15

Rows = list[tuple[int, bytes]]


class BatchedSimulation:
    """Run a batched job.

    Raises AssertionError for a violated invariant, and the exceptions of the job's functions.
    """

    def __init__(self, graph: JobGraph, random: Random, circumstances: Circumstances, trace: Trace) -> None:
        self.random = random
        self.trace = trace
        self.circumstances = circumstances
        self.clock = Clock(random, circumstances.tick_ns_max, circumstances.start_ms)
        trace.use_clock(self.clock.now_ms)
        self.outside = Outside()
        self.step_limit = StepLimit()
        self._widths = graph.widths
        self._collecting = collecting_sinks(graph)
        self._committers = committers_of(graph)
        splits: dict[int, list[list[Any]]] = {
            vertex.id: assign_statically(vertex.source, vertex.parallelism, self.clock.now_ms())
            for vertex in graph.sources
        }
        # Mostly few bytes, so that sorted runs are spilled and merged.
        memory_bytes = random.choice([0, 500, 5_000, 1 << 20])
        levels = graph.levels(
            "simulated", splits=splits, sorted_inputs_bytes=memory_bytes, job_parameters={PARAMETER: "yes"}
        )
        edges = {id: edge for level in levels for id, edge in level.edges.items()}
        self._channels = ChannelChecks(edges, exact_time=False, batched=True)
        self._places: list[tuple[int, int]] = []
        """Level and index of the slot of each execution."""
        self._results: list[list[Result]] = []
        """Results that each run has sent to the driver. At the end the outcomes show which runs count."""
        self._payloads = [dump_level(level) for level in levels]

    def run(self) -> None:
        """Run the job to its end."""
        rows: Rows = []
        for level, width in enumerate(self._widths):
            inputs: dict[int, list[bytes]] = defaultdict(list)
            for target, row in rows:
                inputs[target].append(row)
            rows = self._run_level(level, [inputs[index] for index in range(width)])
        self._channels.all_arrived_but(OUTCOME_EDGE)
        outcomes = [decode_message(row) for _, row in rows]
        for run in sorted(outcomes, key=self._places.__getitem__):
            for result in self._results[run]:
                committer = self._committers.get(result.sink_id)
                if committer is not None:
                    committer.commit(result.values.value)
                else:
                    self.outside.collect(result.sink_id, result.subtask, result.values.value)

    def _run_level(self, level: int, inputs: list[list[bytes]]) -> Rows:
        """Run all slots of a level, interleaved. Returns the rows they sent."""
        scheduler = Scheduler(self.random)
        sent: list[Rows] = [[] for _ in inputs]
        numbers = [self._next_run(level, index) for index, _ in enumerate(inputs)]
        runs = {
            index: self._run_slot(level=level, index=index, input=input, sent=sent[index], run=numbers[index])
            for index, input in enumerate(inputs)
        }
        while runs:
            actions = [Action(f"slot {level}/{index}", lambda: None) for index in runs]
            chosen = scheduler.pick(actions).actor
            index = int(chosen.rpartition("/")[2])
            event = next(runs[index], None)
            if event is None:
                del runs[index]
                self._check_again(level=level, index=index, input=inputs[index], sent=sent[index], first=numbers[index])
            self.trace.add(chosen, event or "ends", f"{len(sent[index])} rows out")
            self.step_limit.check(self.trace.steps)
        for index, rows in enumerate(sent):
            for row in inputs[index]:
                self._channels.arrived(row)
            for _, row in rows:
                self._channels.sent(row, level)
        return [row for rows in sent for row in rows]

    def _next_run(self, level: int, index: int) -> int:
        self._places.append((level, index))
        self._results.append([])
        return len(self._results) - 1

    def _check_again(self, level: int, index: int, input: list[bytes], sent: Rows, first: int) -> None:
        """Occasionally run the same slot again, interrupted at other points."""
        if self.random.random() >= _RUN_AGAIN:
            return
        again: Rows = []
        run = self._next_run(level, index)
        for _ in self._run_slot(level=level, index=index, input=input, sent=again, run=run):
            pass
        assert _contents(again) == _contents(sent), f"slot {level}/{index} ran twice and sent different records"
        both = [_by_sink(self._results[number]) for number in (first, run)]
        assert both[0] == both[1], f"slot {level}/{index} ran twice and had different results"
        self.trace.add(f"slot {level}/{index}", "ran again, with equal output")

    def _run_slot(self, level: int, index: int, input: list[bytes], sent: Rows, run: int) -> Iterator[str]:
        """Process a slot like `hosts/spark/worker/batched_stage.py`; yields a description of each event."""
        spec = load_level(self._payloads[level])
        budget = self.circumstances.budget(self.clock)
        calls = SteppedEventLoops()
        environment = Environment(
            self.clock.now_ms,
            self.clock.read_ns,
            budget=budget,
            open_spill=MemorySpill,
            open_event_loop=calls.open,
            buffers=self.circumstances.buffers,
            first_records=FIRST_RECORDS,
        )
        slot = Slot(spec, index, environment)
        fit_sizes(slot, self.circumstances)
        checks = TaskChecks(self._collecting)
        arrived = self.random.sample(input, len(input))
        with contextlib.closing(calls):
            yield from run_to_end(
                slot,
                sorted(arrived, key=lambda row: row[:SORT_PREFIX_BYTES]),
                lambda: self._until_idle(slot=slot, calls=calls, sent=sent, checks=checks, run=run),
                lambda: self._sleep_until(slot),
            )
        self._take(slot, sent, checks, run)
        slot.send_outcome(run)
        sent.extend(slot.outbox.take())

    def _until_idle(
        self, slot: Slot, calls: SteppedEventLoops, sent: Rows, checks: TaskChecks, run: int
    ) -> Iterator[str]:
        busy = True
        while busy:
            if calls and (slot.wake_at_ms() is None or self.random.random() < 0.8):
                calls.step(self.random, slot.handle)
            elif slot.waiting:
                self._sleep_until(slot)
            busy = slot.step() or slot.waiting
            checks.after_event(slot)
            self._take(slot, sent, checks, run)
            yield "step"

    def _take(self, slot: Slot, sent: Rows, checks: TaskChecks, run: int) -> None:
        for effect in slot.take_effects():
            checks.effect(effect)
            if isinstance(effect, Result):
                self._results[run].append(effect)
        sent.extend(slot.outbox.take())

    def _sleep_until(self, slot: Slot) -> None:
        at = slot.wake_at_ms()
        assert at is not None, "the slot has no work and its data has not ended: deadlock"
        self.clock.advance_to(max(at, self.clock.now_ms()))


def _contents(rows: Rows) -> dict[Any, list[Any]]:
    """Return the records by edge, sender, target and key group, in order, however they are cut into buffers."""
    contents: dict[Any, list[Any]] = defaultdict(list)
    for target, row in rows:
        header = decode_header(row)
        if header.edge == OUTCOME_EDGE:
            continue
        where = (target, header.edge, header.sender, header.target, header.key_group)
        for chunk in decode_items(row):
            assert isinstance(chunk, chunks.Rows), "an element in batched mode"
            times: list[int | None] = [*chunk.timestamps] if chunk.timestamps is not None else [None] * len(chunk)
            contents[where].extend(zip(map(_comparable, chunk.values), times, strict=True))
    return contents


def _by_sink(results: list[Result]) -> dict[Any, list[Any]]:
    """Return the results of (sink, subtask), regardless of how they are cut."""
    by_sink: dict[Any, list[Any]] = defaultdict(list)
    for result in results:
        by_sink[result.sink_id, result.subtask].extend(map(_comparable, result.values.value))
    return by_sink


def _comparable(value: Any) -> Any:
    """Return a value that equals that of another run: NaN does not equal itself."""
    if isinstance(value, Row):
        return "Row", value.get_row_kind(), list(map(_comparable, value))
    return kind(map(_comparable, value)) if (kind := type(value)) in (tuple, list) else exact(value)
