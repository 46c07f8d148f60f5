"""A task: its life cycle, the order of its work, slices and pauses, checkpoints, and its requests to the host."""

from __future__ import annotations

import itertools

import pytest
from tests.unit.engine.runtime.hosted_task import Function, Host, Script, Split, mapping, sourced
from tests.unit.engine.runtime.test_sink_operators import Recording

from penstock.api.source import END_OF_INPUT, Nothing, Records
from penstock.common import WatermarkStrategy
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.errors import UserFunctionError
from penstock.datastream.functions import MapFunction
from penstock.engine.runtime.checkpoint_options import CheckpointOptions, DeclineReason
from penstock.engine.runtime.network.buffer import (
    CheckpointBarrier,
    EndOfData,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
)
from penstock.engine.runtime.network.set_aside import AlignmentLimits
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.process import KeyedProcessOperator
from penstock.engine.runtime.operators.sink import CollectOperator, SinkOperator
from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.runtime.operators.stateless import FlatMapOperator
from penstock.engine.runtime.task.events import (
    AbortCheckpoint,
    Acknowledge,
    AssignSplits,
    Cancel,
    CheckpointComplete,
    Close,
    DataEnded,
    Decline,
    Finished,
    InputEnded,
    NoMoreSplits,
    Opaque,
    RequestSplit,
    Result,
    TriggerCheckpoint,
)
from penstock.engine.runtime.task.task import TaskState


def test_from_the_first_record_to_the_end() -> None:
    """The job would never end, or end before its last records are sent."""
    calls: list = []
    host = Host(mapping(Function(calls)))
    assert calls == ["open"]
    assert host.sends(0, [1, 2]).flushed() == [1, 2]
    assert host.sends(0, EndOfData()).flushed() == []
    assert host.task.state is TaskState.RUNNING
    host.sends(1, [3], EndOfData())
    assert host.works().left() == [3, EndOfData()]
    assert host.task.state is TaskState.DATA_ENDED
    assert host.asks() == [DataEnded(1, 0)]
    assert calls == ["open"]
    host.handle(Close())
    assert calls == ["open", "close"]
    assert host.asks() == [Finished(1, 0)]
    assert host.slot.finished
    host.handle(Close()).handle(Cancel())
    assert (calls, host.asks(), host.task.wake_at_ms(), host.task.busy) == (["open", "close"], [], None, False)


def test_cancel_drops_all_work_and_closes() -> None:
    """Ctrl-C would wait for a generator that never ends, or leave connections open."""
    calls: list = []
    endless = FlatMapOperator("endless", UserFunction(lambda value: iter(int, 1), "flat_map"))
    host = Host(endless, mapping(Function(calls)))
    host.tick_ns = 1_000_000
    host.sends(0, [1]).sends(1, [2])
    host.slot.step()
    assert host.task.busy
    host.handle(Cancel())
    assert calls == ["open", "close"]
    assert host.asks() == [Finished(1, 0)]
    assert not host.task.busy
    host.task.check()


def test_a_close_that_fails_is_not_reported_as_finished() -> None:
    """A function that fails to write its rest in `close` would lose it, and the job would be reported as successful."""
    host = Host(mapping(Function([], fails_in="close")))
    host.sends(0, EndOfData()).sends(1, EndOfData()).works().asks()
    with pytest.raises(UserFunctionError, match="close failed"):
        host.handle(Close())
    assert Finished(1, 0) not in host.asks()


def test_what_comes_for_a_task_that_is_over_changes_nothing() -> None:
    """A split that was in transit during a cancel would be added to a closed reader."""
    script = Script()
    host = sourced(script)
    host.handle(Cancel())
    for event in (AssignSplits(Opaque([Split()])), NoMoreSplits(), TriggerCheckpoint(1, 0), AbortCheckpoint(1)):
        host.handle(event)
    assert script.calls == ["closed"]
    assert not host.slot.step()
    host.task.check()


def test_a_lost_buffer_is_noticed() -> None:
    """Records would be missing in the result, unnoticed."""
    host = Host(mapping())
    host.sends(0, [1])
    host.sequences[0] += 1
    with pytest.raises(AssertionError, match="buffer 2, expected 1"):
        host.sends(0, [2])


def test_records_and_watermarks_keep_their_order() -> None:
    """Records would be late that were in time."""
    host = Host(mapping())
    host.sends(1, Watermark(50), WatermarkStatus(False))
    host.sends(0, [1], Watermark(10), [2], Watermark(20), [3])
    assert host.flushed() == [1, Watermark(10), 2, Watermark(20), 3]
    assert host.task.chain.counters[0].watermark == 20
    assert host.sends(0, WatermarkStatus(False)).flushed() == [Watermark(50), WatermarkStatus(False)]
    assert host.sends(1, WatermarkStatus(True), Watermark(60)).flushed() == [WatermarkStatus(True), Watermark(60)]


def test_records_after_the_watermark_wait_for_its_timers() -> None:
    """A record would be processed before the timer that its time has set off."""
    seen: list = []

    class Timed:
        def process_element(self, value, ctx):
            seen.append(value)
            ctx.timer_service().register_event_time_timer(5)

        def on_timer(self, timestamp, ctx):
            for i in range(3):
                seen.append(("timer", ctx.get_current_key(), i))
                yield i

    host = Host(KeyedProcessOperator("keyed", lambda v: v, UserFunction(Timed(), "process_element")), senders=1)
    host.tick_ns = host.slot.budget.step_ns // 3  # each step ends after a result or two
    host.slot.budget.chunk_records = 1
    host.sends(0, ["a", "b"], Watermark(5), ["c"]).works()
    assert seen == ["a", "b", *(("timer", key, i) for key in "ab" for i in range(3)), "c"]


def test_a_slow_function_does_not_hold_the_task_for_a_whole_chunk() -> None:
    """Barriers and flushes would wait four seconds for 4,000 calls of a millisecond."""
    host = Host(mapping(lambda value: host.__setattr__("ns", host.ns + 1_000_000) or value), senders=1)
    host.sends(0, list(range(4000))).sends(0, list(range(4000)))
    steps = []
    while host.task.busy:
        before = host.task.chain.counters[0].records_in
        host.slot.step()
        steps.append(host.task.chain.counters[0].records_in - before)
    assert sum(steps) == 8000
    assert max(steps[1:-1]) <= 10, "only the first slice may be a guess"


class Endless(Script):
    """Has as many records as are asked for."""

    def poll(self, max_records):
        return Records("s", [1] * max_records)


def test_a_source_does_not_read_more_than_a_slow_function_takes() -> None:
    """A barrier would wait until a whole chunk has gone through the function behind the source."""
    source = SourceOperator("source", Endless(), WatermarkStrategy.no_watermarks(), 200)
    host = Host(source, mapping(lambda value: host.__setattr__("ns", host.ns + 1_000_000) or value), source=True)
    host.handle(AssignSplits(Opaque([Split()])))
    read = [source.context.counters.records_in]
    for _ in range(20):
        host.slot.step()
        read.append(source.context.counters.records_in)
    steps = [after - before for before, after in itertools.pairwise(read)]
    assert max(steps) <= 64 and max(steps[-5:]) <= 10, steps


def test_how_long_an_alignment_took_is_told() -> None:
    """The cause of slow checkpoints would stay unknown: skewed inputs, slow storage, or large state."""
    host = Host(mapping())
    host.ns = 5_000_000
    host.sends(0, CheckpointBarrier(1, 0)).works()
    host.ns += 30_000_000
    counters = host.task.counters
    assert counters.aligned_ns(host.ns) == 30_000_000, "while it lasts: the barrier that is missing may never come"
    host.sends(1, CheckpointBarrier(1, 0)).works()
    (acknowledge,) = host.asks()
    assert acknowledge.state.figures.alignment_ms == 30
    assert counters.aligned_ns(host.ns + 5) == 30_000_000
    host.sends(0, CheckpointBarrier(2, 0)).works().handle(AbortCheckpoint(2))
    host.ns += 70_000_000
    assert counters.aligned_ns(host.ns) == 30_000_000, "that of an aborted one has no end"
    host.sends(0, CheckpointBarrier(3, 0)).sends(1, CheckpointBarrier(3, 0)).works()
    (acknowledge,) = host.asks()
    assert acknowledge.state.figures.alignment_ms == 0, "not from the one that was aborted"


def test_how_long_a_barrier_was_on_its_way_is_told() -> None:
    """Records before the barrier that take long would look like slow storage, or like nothing at all."""
    host = Host(mapping())
    host.now_ms = 1_000
    host.sends(0, CheckpointBarrier(1, 400)).works()
    assert host.task.counters.start_delay_ms == 600
    host.now_ms = 5_000
    host.sends(1, CheckpointBarrier(1, 400)).works()
    (acknowledge,) = host.asks()
    assert acknowledge.state.figures.start_delay_ms == 600, "until the first barrier; the rest is alignment"
    host.sends(0, CheckpointBarrier(2, 9_000)).sends(1, CheckpointBarrier(2, 9_000)).works()
    (acknowledge,) = host.asks()
    assert acknowledge.state.figures.start_delay_ms == 0, "the clock of the driver is ahead"
    assert host.task.counters.start_delay_ms == 0


def test_functions_are_notified_of_aborted_checkpoints_once() -> None:
    """What a function holds for a checkpoint would be held for ever."""
    notified: list[int] = []

    class Listening(MapFunction):
        def map(self, value):
            return value

        def notify_checkpoint_aborted(self, checkpoint_id):
            notified.append(checkpoint_id)

    host = Host(mapping(Listening()))
    for checkpoint_id in (5, 4, 5):
        host.handle(AbortCheckpoint(checkpoint_id))
    host.handle(CheckpointComplete(6))
    host.handle(AbortCheckpoint(3))
    assert notified == [5, 4]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_no_buffer_timeout_and_none_at_all(timeout_ms: int) -> None:
    """A record of a quiet stream would wait where nothing is to wait, or leave where only full buffers are to."""
    host = Host(mapping(), buffer_timeout_ms=timeout_ms)
    host.sends(0, [1]).works()
    assert host.left() == ([1] if timeout_ms == 0 else [])
    assert host.task.wake_at_ms() is None
    host.now_ms += 1000
    assert host.sends(0, [2]).works().left() == ([2] if timeout_ms == 0 else [])
    host.sends(0, EndOfData()).sends(1, EndOfData()).works()
    assert host.left() == ([1, 2, EndOfData()] if timeout_ms == -1 else [EndOfData()])


def test_the_buffer_timeout_counts_from_the_last_flush() -> None:
    """A record of a quiet stream would wait for nothing, or a busy one would send records one by one."""
    host = Host(mapping(), buffer_timeout_ms=5)
    assert host.sends(0, [1]).works().left() == [1], "nothing left for a while: it need not wait"
    assert host.sends(0, [2]).works().left() == []
    assert host.task.wake_at_ms() == 1005
    host.now_ms = 1004
    assert host.sends(0, [3]).works().left() == []
    host.now_ms = 1005
    assert host.works().left() == [2, 3]
    assert host.task.wake_at_ms() is None
    assert host.sends(0, [4]).works().left() == []
    assert host.task.wake_at_ms() == 1010


def test_a_checkpoint_with_aligned_barriers() -> None:
    """State would hold records from behind the barrier."""
    host = Host(mapping())
    # Buffers wait from here on: something has just left.
    assert host.sends(0, [0]).works().left() == [0]
    host.sends(0, [1], CheckpointBarrier(1, 0)).sends(0, [2]).sends(1, [3])
    assert host.works().left() == []
    host.sends(1, CheckpointBarrier(1, 0), [4])
    host.works()
    # The barrier is flushed at once: it must not wait for a timeout at each hop.
    assert host.left() == [1, 3, CheckpointBarrier(1, 0)]
    (acknowledge,) = host.asks()
    assert (type(acknowledge), acknowledge.checkpoint_id, acknowledge.commits) == (Acknowledge, 1, Opaque([]))
    assert acknowledge.state.figures.set_aside > 10, "bytes of the buffer that waited"
    assert host.flushed() == [2, 4]
    host.sends(0, CheckpointBarrier(2, 0), [5]).handle(AbortCheckpoint(2))
    assert host.flushed() == [5]
    host.sends(1, CheckpointBarrier(3, 0)).sends(0, CheckpointBarrier(4, 0)).works()
    assert [type(effect) for effect in host.asks()] == [Decline]


def test_what_is_set_aside_beyond_a_limit_goes_to_disk() -> None:
    """One slow channel would fill the memory with all that the others bring meanwhile."""
    host = Host(mapping(), alignment=AlignmentLimits(memory_bytes=100))
    host.sends(0, CheckpointBarrier(1, 0))
    for n in range(20):
        host.sends(0, [n])
    assert host.flushed() == []
    (file,) = host.spilled
    host.sends(1, [100], CheckpointBarrier(1, 0))
    assert host.flushed() == [100, CheckpointBarrier(1, 0), *range(20)]
    assert file.is_closed, "disk space is released"
    host.sends(0, CheckpointBarrier(2, 0)).sends(0, [1], CheckpointBarrier(3, 0)).sends(0, [2]).sends(0, [3]).works()
    host.sends(1, CheckpointBarrier(3, 0)).works()
    assert host.flushed() == [1, CheckpointBarrier(3, 0), 2, 3], "a newer alignment started with what was on disk"


def test_what_is_set_aside_has_an_end() -> None:
    """The disk would be full instead of the memory."""
    host = Host(mapping(), alignment=AlignmentLimits(memory_bytes=100, bytes_max=300))
    host.sends(0, CheckpointBarrier(1, 0))
    for n in range(30):
        host.sends(0, [n])
    assert host.flushed() == [*range(30)], "the job goes on"
    (decline,) = host.asks()
    assert type(decline) is Decline and decline.reason is DeclineReason.ALIGNMENT_LIMIT
    host.sends(1, CheckpointBarrier(1, 0), [100]).works()
    assert host.flushed() == [100]
    assert not host.asks()


def test_at_least_once_waits_for_nobody() -> None:
    """AT_LEAST_ONCE, chosen for its latency, would not improve latency."""
    host = Host(mapping(), exactly_once=False)
    host.sends(0, CheckpointBarrier(1, 0), [2])
    assert host.flushed() == [2]
    host.sends(1, [3], CheckpointBarrier(1, 0)).works()
    assert host.left() == [3, CheckpointBarrier(1, 0)]


def test_a_source_begins_a_checkpoint_between_its_records() -> None:
    """Its position and the barrier would not match: records lost or doubled."""
    script = Script()
    host = sourced(script)
    assert host.asks() == [RequestSplit(1, 0)]
    script.script = [Records("s", [1, 2], [1, 2])]
    host.handle(AssignSplits(Opaque([Split()]))).works()
    host.handle(TriggerCheckpoint(7, 500))
    script.script = [Records("s", [3], [3])]
    host.task.chain.head.poll_at_ms = host.now_ms
    host.works()
    assert host.left() == [1, 2, CheckpointBarrier(7, 500)]
    assert script.prepared == 7, "readers know which checkpoint their snapshot is for"
    assert [(type(effect), effect.checkpoint_id) for effect in host.asks()] == [(Acknowledge, 7)]
    assert host.flushed() == [3]


def test_a_source_that_is_told_of_a_checkpoint_twice_begins_it_once() -> None:
    """Its barrier would come twice, and all tasks behind it would take part a second time."""
    host = sourced(Script())
    host.handle(TriggerCheckpoint(7, 500)).works()
    host.handle(TriggerCheckpoint(8, 600)).works()
    host.handle(TriggerCheckpoint(7, 500)).works()
    assert host.left() == [CheckpointBarrier(7, 500), CheckpointBarrier(8, 600)]


def test_the_end_of_a_source() -> None:
    """Windows behind it would stay open, or close before its last record."""
    script = Script()
    host = sourced(script)
    script.script = [Records("s", [1], [1], split_finished=True), END_OF_INPUT]
    host.handle(AssignSplits(Opaque([Split()]))).handle(NoMoreSplits()).works().works()
    assert host.left() == [1, Watermark(0), Watermark(MAX_TIMESTAMP), EndOfData()]
    assert script.calls == [("splits", ["s"]), "no more"]
    host.now_ms += 1000
    assert host.flushed() == []
    host.handle(TriggerCheckpoint(3, 0)).works()
    assert host.left() == [CheckpointBarrier(3, 0)]
    assert host.handle(Close()).asks()[-1] == Finished(1, 0)
    assert script.calls[-1] == "closed"


def test_what_operators_hold_at_their_end_is_in_the_savepoint_that_comes_with_it() -> None:
    """Committed behind the savepoint with which the job stops, it would be written again by the one restored."""
    sink = Recording()
    host = Host(SinkOperator("out", sink, 9), senders=1, leaves=False)
    host.sends(0, [1], EndOfData(), CheckpointBarrier(1, 0, CheckpointOptions(savepoint="/sp", stop=True))).works()
    assert ("flush", True) in sink.calls and ("flush", False) not in sink.calls
    (acknowledged,) = [effect for effect in host.asks() if isinstance(effect, Acknowledge)]
    assert acknowledged.commits.value == [(9, ["part-1"])] and acknowledged.state.ended
    assert not [effect for effect in host.handle(Close()).asks() if isinstance(effect, Result)]


def test_when_the_task_wants_to_be_called() -> None:
    """A rate-limited source or a timeout would come seconds late, or the host would spin."""
    script = Script()
    host = sourced(script)
    script.script = [Nothing(retry_at_ms=1070)]
    host.works()
    assert host.task.wake_at_ms() == 1070
    assert not host.task.busy
    host.now_ms = 1070
    assert host.task.busy
    host.works()
    assert host.task.wake_at_ms() == 1200, "nothing until splits are added but the watermark interval"


def test_latency_markers_are_measured_by_each_task_and_pass_through() -> None:
    """Which of the operators on its way makes a record late would stay unknown; or each marker come once a channel."""
    host = Host(mapping())
    host.sends(0, LatencyMarker(900, 0, 0))
    assert host.flushed() == [LatencyMarker(900, 0, 0)]
    assert (host.task.counters.latency_count, host.task.counters.latency_sum_ms) == (1, 100)
    last = Host(CollectOperator("collect", 3), leaves=False)
    last.sends(0, LatencyMarker(900, 0, 0)).sends(1, LatencyMarker(990, 0, 0), ["x"]).works()
    counters = last.task.counters
    assert (counters.latency_count, counters.latency_sum_ms, counters.latency_max_ms) == (2, 110, 100)
    assert last.asks() == [Result(1, 0, 3, Opaque(["x"]))]
    script = Script()
    marking = sourced(script, latency_interval_ms=50)
    assert marking.flushed() == [LatencyMarker(1000, 1, 0)]


def test_counters_tell_what_came_and_went() -> None:
    """A slow job could not be looked into."""
    host = Host(mapping(), mapping(name="second"))
    host.sends(0, [1, 2]).sends(1, [3]).flushed()
    first, second = host.task.chain.counters
    assert (first.records_in, first.records_out, second.records_in, second.records_out) == (3, 3, 3, 3)
    counters = host.task.counters
    assert (counters.buffers_in, counters.buffers_out) == (2, 1)
    assert counters.bytes_in > counters.bytes_out > 0


def test_a_failure_leaves_by_the_host() -> None:
    """The job would go on without the record that broke."""
    host = Host(mapping(lambda value: 1 // value))
    host.sends(0, [1, 0])
    with pytest.raises(UserFunctionError, match="value 0"):
        host.works()


# Batched mode.


def test_a_batched_task_without_input_ends_as_well() -> None:
    """A job whose filter lets nothing through would never end."""
    host = Host(mapping(), batched=True)
    host.handle(InputEnded()).works()
    assert host.task.state is TaskState.DATA_ENDED
    assert host.left() == []


def test_the_journal_tells_what_happened() -> None:
    """An internal error would come without the events that led to it."""
    host = Host(mapping())
    host.handle(AbortCheckpoint(4))
    assert str(host.task.journal) == "  1000 ms  AbortCheckpoint(checkpoint_id=4)"
    for n in range(500):
        host.handle(AbortCheckpoint(n))
    assert len(str(host.task.journal).splitlines()) == 200
