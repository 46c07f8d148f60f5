"""Does the simulator bite? Each fault here is put into the runtime on purpose, and some seed must fail of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.cluster import execution
from penstock.cluster.uncommitted import Uncommitted
from penstock.runtime import output, task
from penstock.runtime.alignment import AtLeastOnceAlignment
from penstock.runtime.elements import CheckpointBarrier, Element
from penstock.runtime.operators.keyed import KeyedOperator
from penstock.runtime.operators.stateless import FlatMapOperator
from penstock.runtime.output import OutputEdge
from penstock.runtime.timers import TimerQueue
from penstock.runtime.vertex import EdgeInfo
from penstock.runtime.watermarks import WatermarkValve
from penstock.state.layers import LayeredTable
from penstock.state.stored_table import StoredTable
from penstock.state.tables import FrozenTable
from penstock.testing.simulator import SimulationError, run_seed
from penstock.testing.simulator.network import Channel, Network

pytestmark = pytest.mark.simulation

SEEDS = 500


def highest_watermark(patch: pytest.MonkeyPatch) -> None:
    """Event time is that of the fastest channel, not of the slowest."""

    def pass_on(self: Any) -> None:
        watermarks = [time.watermark for time in self._channels.values() if time.active]
        if watermarks:
            self._pass_on(max(watermarks))

    patch.setattr(WatermarkValve, "_pass_on_minimum", pass_on)


def newest_row_first(patch: pytest.MonkeyPatch) -> None:
    """The network does not keep the order of a channel."""

    def receive(self: Network, channel: Channel) -> bytes:
        return self._channels[channel].pop()

    patch.setattr(Network, "receive", receive)


def another_way_each_time(patch: pytest.MonkeyPatch) -> None:
    """Rows of one sender are relayed by one slot now, by another then."""
    turn = iter(range(10**9))

    def hop(self: EdgeInfo, level: int, sender: int, target: int) -> int:
        return target if level >= self.target_level else (sender + next(turn)) % self.widths[level]

    patch.setattr(EdgeInfo, "hop", hop)


def forgotten_cursor(patch: pytest.MonkeyPatch) -> None:
    """A paused flat_map goes on with the next record, not with the rest of the one it was at."""
    resume = FlatMapOperator.resume

    def forget(self: FlatMapOperator) -> bool:
        if self.paused:
            self._results = None
        return resume(self)

    patch.setattr(FlatMapOperator, "resume", forget)


def forgotten_timers(patch: pytest.MonkeyPatch) -> None:
    """A key group in batched mode ends without its timers."""
    patch.setattr(KeyedOperator, "end_key_group", lambda self: self.forget_key_group())


def forgotten_elements(patch: pytest.MonkeyPatch) -> None:
    """A buffer timeout sends records only."""

    def flush(self: OutputEdge) -> None:
        self.pending = False
        for accumulator in self._accumulators:
            if accumulator.values:
                self._send(accumulator, accumulator.values, accumulator.timestamps)
                accumulator.values.clear()
                accumulator.timestamps.clear()

    patch.setattr(OutputEdge, "flush", flush)


def one_partitioner_for_all(patch: pytest.MonkeyPatch) -> None:
    """A partitioned stream that is read twice is written to one reader only."""
    patch.setattr(output, "copy", type("NoCopy", (), {"copy": staticmethod(lambda value: value)}))


def no_alignment(patch: pytest.MonkeyPatch) -> None:
    """EXACTLY_ONCE sets nothing aside."""
    patch.setattr(task, "ExactlyOnceAlignment", AtLeastOnceAlignment)


def barrier_before_records(patch: pytest.MonkeyPatch) -> None:
    """A barrier overtakes the records that wait for their buffer to be full."""
    element = OutputEdge.element

    def first(self: OutputEdge, sent: Element) -> None:
        if not isinstance(sent, CheckpointBarrier):
            element(self, sent)
            return
        for channel in self._channels:
            channel.segments.insert(0, sent)
        self.pending = True

    patch.setattr(OutputEdge, "element", first)


def committed_too_early(patch: pytest.MonkeyPatch) -> None:
    """What a sink prepared is committed as soon as its task says so, not when the checkpoint is complete."""
    acknowledged = CheckpointCoordinator.acknowledged

    def commit(self: Any, task: Any, checkpoint_id: int, state: Any, commits: Any) -> None:
        for sink, committables in commits:
            self._commit(sink, task[1], committables, lambda: None)
        acknowledged(self, task, checkpoint_id, state, [])

    patch.setattr(CheckpointCoordinator, "acknowledged", commit)


def only_the_first_layer(patch: pytest.MonkeyPatch) -> None:
    """A snapshot of what has changed has nothing in it."""
    for kind in (LayeredTable, StoredTable):
        freeze = kind.freeze

        def nothing(self: LayeredTable, full: bool, freeze: Any = freeze) -> FrozenTable:
            frozen: FrozenTable = freeze(self, full)
            return frozen if full else FrozenTable(lambda: iter(()), False, frozen.keyed_by_first, frozen.release)

        patch.setattr(kind, "freeze", nothing)


def timers_left_out(patch: pytest.MonkeyPatch) -> None:
    """Timers are not in snapshots."""
    patch.setattr(TimerQueue, "restore", lambda self, places, values: None)


def splits_from_the_start(patch: pytest.MonkeyPatch) -> None:
    """A restored source begins anew."""
    patch.setattr(execution.Execution, "enumerator_states", lambda self: {})


def results_before_their_time(patch: pytest.MonkeyPatch) -> None:
    """Collected values count with the checkpoint that is acknowledged next, whatever it holds."""
    add = Uncommitted.add
    patch.setattr(Uncommitted, "add", lambda self, task, sink, values, after: add(self, task, sink, values, after - 1))


FAULTS = [
    committed_too_early, only_the_first_layer, timers_left_out, splits_from_the_start, results_before_their_time,
    highest_watermark, newest_row_first, another_way_each_time, forgotten_cursor, forgotten_timers, forgotten_elements,
    one_partitioner_for_all, no_alignment, barrier_before_records,
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would call a runtime sound that loses records: its word would be worth nothing."""
    fault(monkeypatch)
    with pytest.raises(SimulationError):
        for seed in range(SEEDS):
            run_seed(seed)
