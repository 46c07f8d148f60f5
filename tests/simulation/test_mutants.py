"""Mutation tests of the simulator: some seed must find each deliberate fault in the runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.simulation.mutation import found_by_seeds

from penstock.engine.checkpoint import job_record
from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.effects import Commit
from penstock.engine.checkpoint.pending import PendingCheckpoint
from penstock.engine.checkpoint.storage_requests import StorageRequests
from penstock.engine.jobmaster import job_master
from penstock.engine.jobmaster.attempt import Attempt
from penstock.engine.jobmaster.ending import JobEnding
from penstock.engine.jobmaster.enumerators import SplitEnumerators
from penstock.engine.jobmaster.events import CancelRequested
from penstock.engine.jobmaster.job_master import JobMaster
from penstock.engine.jobmaster.region import Region
from penstock.engine.jobmaster.restarts import RestartDecision
from penstock.engine.jobmaster.results.collected import AttemptResults
from penstock.engine.runtime.batch.key_sorter import KeySorter, SortedRun
from penstock.engine.runtime.network import output
from penstock.engine.runtime.network.alignment import AtLeastOnceAlignment
from penstock.engine.runtime.network.buffer import CheckpointBarrier, Element
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.output import OutputEdge
from penstock.engine.runtime.operators.interval_join import JoinSide
from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.runtime.operators.stateless import FlatMapOperator
from penstock.engine.runtime.task import checkpoints
from penstock.engine.runtime.task.checkpoints import TaskCheckpoints
from penstock.engine.runtime.task.events import Result, TriggerCheckpoint
from penstock.engine.runtime.task.slot import Slot, SlotLifecycle
from penstock.engine.runtime.time.timers import HeapTimerQueue
from penstock.engine.runtime.time.watermarks import WatermarkValve
from penstock.engine.state.backends.rocksdb.store_files import TableStore
from penstock.engine.state.backends.rocksdb.table import RocksDBTable
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.operator_state import HeapOperatorStates
from penstock.engine.state.tables import FrozenTable
from penstock.hosts.simulator.network import Channel, Network
from penstock.hosts.simulator.step_limit import STEPS_MAX
from penstock.hosts.simulator.storage import MemoryStorage

pytestmark = pytest.mark.simulation


def a_taken_over_run_that_goes_on_storing(patch: pytest.MonkeyPatch) -> None:
    """It waits for the answer of a storage to which it sends no further request."""
    patch.setattr(CheckpointCoordinator, "_is_open", property(lambda self: self._running and not self.stopped))


def highest_watermark(patch: pytest.MonkeyPatch) -> None:
    """The fastest channel, not the slowest, determines event time."""

    def pass_on(self: Any) -> None:
        watermarks = [time.watermark for time in self._channels.values() if time.active]
        if watermarks:
            self._forward(max(watermarks))

    patch.setattr(WatermarkValve, "_forward_minimum", pass_on)


def newest_row_first(patch: pytest.MonkeyPatch) -> None:
    """The network does not keep the order of a channel."""

    receive = Network.receive

    def newest(self: Network, channel: Channel) -> bytes:
        self._channels[channel].rotate(1)
        return receive(self, channel)

    patch.setattr(Network, "receive", newest)


def another_way_each_time(patch: pytest.MonkeyPatch) -> None:
    """Rows of one sender are relayed by different slots."""
    turn = iter(range(10**9))

    def hop(self: EdgeInfo, level: int, sender: int, target: int) -> int:
        return target if level >= self.target_level else (sender + next(turn)) % self.widths[level]

    patch.setattr(EdgeInfo, "hop", hop)


def forgotten_cursor(patch: pytest.MonkeyPatch) -> None:
    """A paused flat_map continues with the next record, and skips the rest of the current one."""
    resume = FlatMapOperator.resume

    def forget(self: FlatMapOperator) -> bool:
        if self.paused:
            self._results = None
        return resume(self)

    patch.setattr(FlatMapOperator, "resume", forget)


def forgotten_timers(patch: pytest.MonkeyPatch) -> None:
    """A key in batched mode ends without its timers."""
    patch.setattr(KeyedOperator, "end_key", lambda self: self.forget_key())


def keys_not_by_time(patch: pytest.MonkeyPatch) -> None:
    """In batched mode the records of a key come in the order of arrival."""
    add = KeySorter.add

    def untimed(self: KeySorter, keys: Any, values: Any, timestamps: Any, pickled_bytes: int) -> None:
        add(self, keys, values, timestamps and list(range(len(values))), pickled_bytes)

    patch.setattr(KeySorter, "add", untimed)


def only_the_last_run(patch: pytest.MonkeyPatch) -> None:
    """In batched mode records that a task has sorted on disk are lost."""
    patch.setattr(SortedRun, "__iter__", lambda self: iter(()))


def state_of_the_key_before(patch: pytest.MonkeyPatch) -> None:
    """In batched mode a key starts with the state and the timers of the previous one."""
    patch.setattr(KeyedOperator, "end_key", lambda self: True)


def forgotten_elements(patch: pytest.MonkeyPatch) -> None:
    """A buffer timeout sends records only."""

    def flush(self: OutputEdge) -> None:
        self.pending = False
        gathering = self.gathering
        for accumulator in gathering._accumulators:
            if accumulator.values:
                gathering._send(accumulator, accumulator.values, accumulator.timestamps)
                accumulator.values.clear()
                accumulator.timestamps.clear()

    patch.setattr(OutputEdge, "flush", flush)


def one_partitioner_for_all(patch: pytest.MonkeyPatch) -> None:
    """A partitioned stream with two readers is written to only one of them."""
    patch.setattr(output, "copy", type("NoCopy", (), {"copy": staticmethod(lambda value: value)}))


def no_alignment(patch: pytest.MonkeyPatch) -> None:
    """EXACTLY_ONCE sets nothing aside."""
    patch.setattr(checkpoints, "ExactlyOnceAlignment", AtLeastOnceAlignment)


def barrier_before_records(patch: pytest.MonkeyPatch) -> None:
    """A barrier overtakes the records that wait for their buffer to be full."""
    element = OutputEdge.element

    def first(self: OutputEdge, sent: Element) -> None:
        if not isinstance(sent, CheckpointBarrier):
            element(self, sent)
            return
        for channel in self.gathering.channels:
            channel.items.insert(0, sent)
        self.pending = True

    patch.setattr(OutputEdge, "element", first)


def committed_too_early(patch: pytest.MonkeyPatch) -> None:
    """Prepared output is committed when its task acknowledges, not when the checkpoint is complete."""
    acknowledged = CheckpointCoordinator.acknowledged

    def commit(self: Any, task: Any, checkpoint_id: int, state: Any, commits: Any, now_ms: int) -> None:
        for sink, committables in commits:
            self._emit(Commit(-1, sink, task[1], committables))
        acknowledged(self, task, checkpoint_id, state, [], now_ms)

    patch.setattr(CheckpointCoordinator, "acknowledged", commit)


def only_the_first_layer(patch: pytest.MonkeyPatch) -> None:
    """A snapshot of changes is empty."""
    for kind in (LayeredTable, RocksDBTable):
        freeze = kind.freeze

        def nothing(self: LayeredTable, full: bool, freeze: Any = freeze) -> FrozenTable:
            frozen: FrozenTable = freeze(self, full)
            return frozen if full else FrozenTable(lambda: iter(()), False, frozen.keyed_by_first, frozen.release)

        patch.setattr(kind, "freeze", nothing)


def a_store_that_goes_on(patch: pytest.MonkeyPatch) -> None:
    """A store gets writes between the freeze and the link of its files."""
    patch.setattr(TableStore, "is_blocked", False)


def what_is_in_memory_left_out(patch: pytest.MonkeyPatch) -> None:
    """A full checkpoint has a store's files, without the entries that are not in the store yet."""
    nothing = lambda self: FrozenTable(lambda: iter(()), False, self._namespaced)  # noqa: E731
    patch.setattr(RocksDBTable, "freeze_in_memory", nothing)


def timers_left_out(patch: pytest.MonkeyPatch) -> None:
    """Timers are not in snapshots."""
    patch.setattr(HeapTimerQueue, "restore", lambda self, places, values: None)


def splits_from_the_start(patch: pytest.MonkeyPatch) -> None:
    """A restored source starts from the beginning."""
    patch.setattr(SplitEnumerators, "states", lambda self: {})


def results_before_their_time(patch: pytest.MonkeyPatch) -> None:
    """Collected values count with the checkpoint that is acknowledged next, even if it does not contain them."""
    hold_back = AttemptResults.hold_back

    def early(self: AttemptResults, result: Result) -> None:
        hold_back(self, msgspec.structs.replace(result, after_checkpoint=result.after_checkpoint - 1))

    patch.setattr(AttemptResults, "hold_back", early)


def commits_not_repeated(patch: pytest.MonkeyPatch) -> None:
    """Commits in progress when the driver died, or failed ones, count as completed."""
    patch.setattr(CheckpointCoordinator, "commit_again", lambda self, manifest, vertices: None)


def late_acknowledgements_dropped(patch: pytest.MonkeyPatch) -> None:
    """Output that a sink prepared for a checkpoint that took too long is lost."""
    acknowledged = CheckpointCoordinator.acknowledged

    def drop(self: Any, task: Any, checkpoint_id: int, state: Any, commits: Any, now_ms: int) -> None:
        if checkpoint_id in self._pending:
            acknowledged(self, task, checkpoint_id, state, commits, now_ms)

    patch.setattr(CheckpointCoordinator, "acknowledged", drop)


def no_time_limit_at_the_end(patch: pytest.MonkeyPatch) -> None:
    """A job that waits for its last checkpoint waits forever."""
    tick = CheckpointCoordinator.tick

    def never(self: CheckpointCoordinator, now_ms: int, may_begin: bool = True) -> None:
        if may_begin:
            tick(self, now_ms)

    patch.setattr(CheckpointCoordinator, "tick", never)


def no_fall_back(patch: pytest.MonkeyPatch) -> None:
    """A job whose newest checkpoint is damaged is restored from it repeatedly."""
    patch.setattr(RestartDecision, "falls_back", lambda self, attempt: False)


def deployed_before_the_splits_are_known(patch: pytest.MonkeyPatch) -> None:
    """Tasks run, and a checkpoint is taken, while a source still looks for its splits."""
    patch.setattr(SplitEnumerators, "is_starting", False)


def a_record_that_is_overwritten(patch: pytest.MonkeyPatch) -> None:
    """A run that was taken over still publishes checkpoints."""

    def create(self: MemoryStorage, number: int, data: bytes) -> bool:
        self._entries[number] = data
        return True

    patch.setattr(MemoryStorage, "create_entry", create)


def one_epoch_for_all(patch: pytest.MonkeyPatch) -> None:
    """A run deletes the files of the one that has taken its job over."""
    patch.setattr(job_record, "epoch_of", lambda name: 1)


def silence_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """A slot that no longer sends heartbeats counts as alive."""
    patch.setattr(Attempt, "silent_slot", lambda self, now_ms, timeout_ms: None)


def slots_may_take_for_ever(patch: pytest.MonkeyPatch) -> None:
    """The job waits forever for a slot that never registers."""

    def watch(self: JobMaster, of_job_master: Any = JobMaster._do_what_is_due) -> None:
        for region in self.regions:
            if region.attempt.deployed_ms is not None:
                region.attempt.deployed_ms = self.now_ms
        of_job_master(self)

    patch.setattr(JobMaster, "_do_what_is_due", watch)


def cancel_forgotten_between_attempts(patch: pytest.MonkeyPatch) -> None:
    """A job that is cancelled while it waits for its restart is restarted anyway."""

    def cancel(self: JobMaster, event: Any) -> None:
        for region in self.regions:
            region.attempt.cancel()

    patch.setitem(job_master._HANDLERS, CancelRequested, cancel)


def tasks_of_a_failed_attempt_never_abandoned(patch: pytest.MonkeyPatch) -> None:
    """A task that does not close blocks the restart forever."""
    patch.setattr(Attempt, "abandon", lambda self: None)


def no_wait_for_the_storage(patch: pytest.MonkeyPatch) -> None:
    """An attempt starts while storage operations of the previous one are pending."""
    patch.setattr(StorageRequests, "is_settled", True)


def aborted_while_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint may expire, or be aborted, while its manifest is being stored."""
    patch.setattr(PendingCheckpoint, "is_being_stored", False)


def no_last_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """A job whose data has ended closes its tasks immediately: output after the last checkpoint is never committed."""
    patch.setattr(JobEnding, "_last_checkpoint", lambda self: self._close())


def open_slots(patch: pytest.MonkeyPatch) -> None:
    """A slot accepts messages for the slot of an attempt that has ended."""
    patch.setattr(SlotLifecycle, "accepts", lambda self, attempt: True)


def open_regions(patch: pytest.MonkeyPatch) -> None:
    """Reports of an attempt that has ended count for the current one."""
    patch.setattr(Region, "accepts", lambda self, attempt: True)


def each_trigger_counts(patch: pytest.MonkeyPatch) -> None:
    """A source that is triggered twice for a checkpoint starts it twice."""
    trigger = TaskCheckpoints.trigger

    def again(self: TaskCheckpoints, event: TriggerCheckpoint) -> None:
        self._last_triggered = 0
        trigger(self, event)

    patch.setattr(TaskCheckpoints, "trigger", again)


def nothing_restored_in_at_least_once(patch: pytest.MonkeyPatch) -> None:
    """In AT_LEAST_ONCE mode, tasks start without state after a failure."""
    restore = Slot.restore
    patch.setattr(Slot, "restore", lambda self, files: restore(self, files) if self.level.exactly_once else 0)


def rules_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Broadcast state is empty after a restart."""
    patch.setattr(HeapOperatorStates, "restore", lambda self, lists: None)


def partners_freed_too_early(patch: pytest.MonkeyPatch) -> None:
    """An interval join frees records when event time reaches them."""
    made = JoinSide.__init__

    def make(self: JoinSide, *arguments: Any, **named: Any) -> None:
        made(self, *arguments, **named)
        self.retained_ms = 0

    patch.setattr(JoinSide, "__init__", make)


FAULTS = [
    rules_forgotten, partners_freed_too_early, commits_not_repeated, late_acknowledgements_dropped,
    no_time_limit_at_the_end, open_slots, open_regions, each_trigger_counts, nothing_restored_in_at_least_once,
    a_taken_over_run_that_goes_on_storing, deployed_before_the_splits_are_known, no_fall_back,
    a_record_that_is_overwritten, one_epoch_for_all, silence_is_not_noticed, slots_may_take_for_ever,
    cancel_forgotten_between_attempts, no_wait_for_the_storage, tasks_of_a_failed_attempt_never_abandoned,
    aborted_while_it_is_stored, no_last_checkpoint, a_store_that_goes_on, what_is_in_memory_left_out,
    committed_too_early, only_the_first_layer, timers_left_out, splits_from_the_start, results_before_their_time,
    highest_watermark, newest_row_first, another_way_each_time, forgotten_cursor, forgotten_timers, forgotten_elements,
    keys_not_by_time, only_the_last_run, state_of_the_key_before, one_partitioner_for_all, no_alignment,
    barrier_before_records,
]  # fmt: skip

OF_KINDS_ADDED_LATER = {rules_forgotten, partners_freed_too_early}
OFTEN = {"checkpoint_at_steps": tuple(range(0, 800, 60)), "checkpoint_timeout_ms": 3_000, "cancel_at_step": None}
PROVOKED: dict[Callable[[pytest.MonkeyPatch], None], dict[str, Any]] = {
    no_time_limit_at_the_end: {
        "trigger_lost": 0.5, "checkpoint_timeout_ms": 500, "cancel_at_step": None, "checkpoint_at_steps": (50,),
    },
    rules_forgotten: {**OFTEN, "crash_at_steps": (150, 300), "crash_rate": 1.0, "rescale_rate": 0.0},
    only_the_first_layer: {**OFTEN, "crash_rate": 0.5, "growth_max": 1_000.0, "rescale_rate": 0.0},
    a_store_that_goes_on: {**OFTEN, "cached_entries": 0, "crash_rate": 0.5, "upload_ms_max": 1_000},
    what_is_in_memory_left_out: {**OFTEN, "cached_entries": 5, "crash_rate": 0.5},
    open_slots: {**OFTEN, "late_rate": 0.5, "crash_at_steps": (100, 200, 300), "crash_rate": 0.8},
    open_regions: {**OFTEN, "late_rate": 0.5, "crash_at_steps": (100, 200, 300), "crash_rate": 0.8},
    a_record_that_is_overwritten: {**OFTEN, "stopped_rate": 0.1},
    a_taken_over_run_that_goes_on_storing: {
        **OFTEN, "checkpoint_at_steps": tuple(range(0, 800, 15)), "concurrent_max": 3, "upload_ms_max": 0,
        "stopped_rate": 0.1, "crash_rate": 0.0, "driver_crash_rate": 0.0,
    },
    one_epoch_for_all: {**OFTEN, "stopped_rate": 0.2, "crash_at_steps": (100, 200, 300), "crash_rate": 0.8},
    no_fall_back: {
        **OFTEN, "exactly_once": False, "crash_at_steps": (300,), "crash_rate": 0.5, "retained": 5, "damage_rate": 1.0,
    },
    timers_left_out: {**OFTEN, "crash_at_steps": (300,), "crash_rate": 0.5},
    silence_is_not_noticed: {**OFTEN, "freeze_at_steps": (200,), "driver_crash_rate": 0.0},
    slots_may_take_for_ever: {**OFTEN, "crash_at_steps": (100, 300), "slot_never_starts_rate": 0.9},
    cancel_forgotten_between_attempts: {**OFTEN, "crash_at_steps": (200,), "rescale_rate": 1.0},
    aborted_while_it_is_stored: {**OFTEN, "checkpoint_timeout_ms": 60, "jump_rate": 0.1},
    nothing_restored_in_at_least_once: {**OFTEN, "exactly_once": False, "crash_at_steps": (200,), "crash_rate": 0.5},
}  # fmt: skip
"""Circumstances that make a rare fault show soon: with drawn ones it takes thousands of seeds."""
FIRST = {
    no_alignment: 47,
    rules_forgotten: 419, partners_freed_too_early: 58, commits_not_repeated: 295, late_acknowledgements_dropped: 5,
    no_time_limit_at_the_end: 34, open_slots: 182, open_regions: 38, each_trigger_counts: 5,
    nothing_restored_in_at_least_once: 2,
    deployed_before_the_splits_are_known: 148, no_fall_back: 19, a_record_that_is_overwritten: 143,
    one_epoch_for_all: 270, silence_is_not_noticed: 19, slots_may_take_for_ever: 270, no_wait_for_the_storage: 70,
    tasks_of_a_failed_attempt_never_abandoned: 10, aborted_while_it_is_stored: 22, a_store_that_goes_on: 1203,
    what_is_in_memory_left_out: 333, only_the_first_layer: 333, timers_left_out: 204, splits_from_the_start: 195,
    results_before_their_time: 81, another_way_each_time: 17, a_taken_over_run_that_goes_on_storing: 86,
}  # fmt: skip
"""The seed that is known to find the fault. The search starts there: after a change another seed may be the first."""
HANGING = {
    no_time_limit_at_the_end, silence_is_not_noticed, slots_may_take_for_ever,
    tasks_of_a_failed_attempt_never_abandoned,
}  # fmt: skip
"""Their jobs never end."""
STEP_LIMIT = 12_000
"""For these: without the fault the programs that find them end in fewer steps."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass a runtime that loses records, and its result would be worthless."""
    fault(monkeypatch)
    later, steps = fault in OF_KINDS_ADDED_LATER, STEP_LIMIT if fault in HANGING else STEPS_MAX
    found_by_seeds(monkeypatch, FIRST.get(fault, 0), PROVOKED.get(fault), later, step_limit=steps)
