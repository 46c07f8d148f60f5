"""Unaligned checkpoints: a barrier overtakes records, which belong to the snapshot and come first after a restore."""

from __future__ import annotations

import pytest
from tests.unit.engine.runtime.hosted_task import Host, Script, mapping, sourced

from penstock.common.errors import CheckpointError
from penstock.engine.runtime.checkpoint_options import CheckpointOptions, DeclineReason
from penstock.engine.runtime.network.buffer import CheckpointBarrier, EndOfData, Watermark
from penstock.engine.runtime.network.partitioners import BroadcastPartitioner, RescalePartitioner
from penstock.engine.runtime.network.set_aside import AlignmentLimits
from penstock.engine.runtime.task.events import AbortCheckpoint, Acknowledge, Cancel, Decline
from penstock.engine.state.handles import Redistribution, RestoredOperator


def barrier(number: int, **options) -> CheckpointBarrier:
    return CheckpointBarrier(number, 0, CheckpointOptions(**options))


def in_flight(host: Host) -> RestoredOperator:
    """What the snapshot that was acknowledged last has of records in flight."""
    (acknowledged,) = [effect for effect in host.works().asks() if isinstance(effect, Acknowledge)]
    lists = [state.lists for state in acknowledged.state.operators.values() if state.lists is not None]
    return RestoredOperator([], [(one.path, part) for one in lists for part in one.lists], True)


def restored(host: Host, **settings) -> list:
    """What leaves first in a task that is restored from the last snapshot of another one."""
    again = Host(mapping(), restored=in_flight(host), storage=host.storage, **settings)
    return again.flushed()


def test_a_barrier_overtakes_records_and_the_snapshot_holds_them() -> None:
    """A checkpoint would wait for the slowest channel; or what it overtook would be lost, or come twice."""
    host = Host(mapping(), unaligned_after_ms=0)
    host.sends(0, [1]).sends(1, [2], barrier(1)).sends(0, [3]).sends(1, [4]).sends(0, [5], Watermark(7))

    assert host.flushed() == [1, 2, barrier(1), 3, 4, 5], "nothing waits, and the barrier goes on at once"
    assert not host.asks(), "what is in flight is not known yet"
    host.sends(0, [6], barrier(1), [7])
    assert host.flushed() == [6, 7]
    assert restored(host) == [3, 5, 6]


def test_the_figures_say_how_much_was_in_flight() -> None:
    """A user would not see what the new setting costs."""
    host = Host(mapping(), unaligned_after_ms=0)
    host.sends(0, barrier(1)).sends(1, [2], barrier(1))
    (unaligned,) = [effect for effect in host.works().asks() if isinstance(effect, Acknowledge)]
    host.sends(0, barrier(2, savepoint="there")).sends(1, [2], barrier(2, savepoint="there"))
    (aligned,) = [effect for effect in host.works().asks() if isinstance(effect, Acknowledge)]

    assert unaligned.state.figures.in_flight
    assert aligned.state.figures.in_flight is None


def test_with_a_timeout_barriers_are_aligned_first() -> None:
    """State would grow by records in flight in each checkpoint, though the channels are a millisecond apart."""
    host = Host(mapping(), unaligned_after_ms=1_000)
    first = CheckpointBarrier(1, host.now_ms, CheckpointOptions())
    host.sends(0, [1], first, [2]).sends(1, [3])
    assert host.flushed() == [1, 3], "it waits for the other barrier"
    assert host.slot.wake_at_ms() == first.timestamp_ms + 1_000
    host.now_ms += 1_000
    assert host.flushed() == [first, 2], "now it does not"
    host.sends(1, [4], first, [5])
    assert host.flushed() == [4, 5]
    assert restored(host) == [4]


def test_the_timeout_is_one_for_the_whole_graph() -> None:
    """Each exchange on the way would wait for all of it once more. Source: Flink, BarrierAlignmentUtil."""
    host = Host(mapping(), unaligned_after_ms=1_000)
    late = CheckpointBarrier(1, host.now_ms - 1_500, CheckpointOptions())
    host.sends(0, late, [1]).sends(1, [2])
    assert host.flushed() == [2, late, 1]


def test_a_savepoint_is_always_aligned() -> None:
    """The job that starts from it may be another program, whose tasks take other records."""
    host = Host(mapping(), unaligned_after_ms=0)
    host.sends(0, [1], barrier(1, savepoint="there"), [2]).sends(1, [3])
    assert host.flushed() == [1, 3]
    host.sends(1, barrier(1, savepoint="there"))
    assert host.flushed()[1:] == [2]


def test_two_checkpoints_at_once() -> None:
    """What is in flight for two checkpoints would be in one of them only."""
    host = Host(mapping(), unaligned_after_ms=0)
    host.sends(0, barrier(1), [1], barrier(2)).sends(1, [2]).works()
    host.sends(1, barrier(1), [3])
    assert restored(host) == [2]
    host.sends(1, barrier(2))
    assert restored(host) == [2, 3]


def test_an_aborted_checkpoint_is_forgotten() -> None:
    """The log of a checkpoint that nobody waits for would grow for ever."""
    host = Host(mapping(), unaligned_after_ms=0, alignment=AlignmentLimits(0))
    host.sends(0, barrier(1)).sends(1, [1]).works()
    assert [file.is_closed for file in host.spilled] == [False]
    host.handle(AbortCheckpoint(1)).sends(1, [2], barrier(1)).works()
    assert host.asks() == []
    assert all(file.is_closed for file in host.spilled)
    host.sends(0, barrier(2)).sends(1, [3], barrier(2))
    assert restored(host) == [3]


def test_one_that_was_given_up_before_is_declined() -> None:
    """The coordinator would wait for a task that waits for a barrier which never comes."""
    host = Host(mapping(), unaligned_after_ms=0)
    host.sends(0, barrier(1)).sends(1, [1], barrier(2)).works()
    assert [(effect.checkpoint_id, effect.reason) for effect in host.asks() if isinstance(effect, Decline)] == [
        (1, DeclineReason.NEWER)
    ]
    host.sends(0, [2], barrier(2))
    assert restored(host) == [2]


def test_what_is_in_flight_has_an_end() -> None:
    """A channel that is stuck would fill the disk with what comes on another one."""
    host = Host(mapping(), unaligned_after_ms=0, alignment=AlignmentLimits(0, 1_000))
    host.sends(0, barrier(1))
    for number in range(20):
        host.sends(1, [f"{number:0100d}"]).works()
    declined = [effect for effect in host.asks() if isinstance(effect, Decline)]
    assert [(effect.checkpoint_id, effect.reason) for effect in declined] == [(1, DeclineReason.ALIGNMENT_LIMIT)]
    assert all(file.is_closed for file in host.spilled)
    assert len(host.flushed()) == 21, "records and barrier go on"


def test_nothing_is_left_on_disk() -> None:
    """Each cancelled job would leave what was in flight on its workers' disks."""
    host = Host(mapping(), unaligned_after_ms=0, alignment=AlignmentLimits(0))
    host.sends(0, barrier(1)).sends(1, [1], EndOfData()).works()
    assert not host.spilled[0].is_closed
    host.handle(Cancel())
    assert all(file.is_closed for file in host.spilled)


@pytest.mark.parametrize(
    "settings",
    [
        {"partitioner": BroadcastPartitioner()},
        {"partitioner": RescalePartitioner()},
        {"in_loop": True},
    ],
    ids=str,
)
def test_tasks_that_stay_aligned(settings: dict) -> None:
    """Copies of broadcast records would come twice after rescaling, records of one key that have come by a pointwise
    input would go to several subtasks, or a loop's head would wait for ever."""
    host = Host(mapping(), unaligned_after_ms=0, **settings)
    host.sends(0, [1], barrier(1), [2]).sends(1, [3])
    assert host.flushed() == [1, 3]


def test_in_mode_at_least_once_nothing_is_logged() -> None:
    """Records would be written and restored that are processed again anyway."""
    host = Host(mapping(), unaligned_after_ms=0, exactly_once=False)
    host.sends(0, barrier(1)).sends(1, [1], barrier(1))
    assert restored(host) == []


def test_records_in_flight_to_an_operator_within_a_chain_are_not_lost() -> None:
    """A program that chains more than the one that took the checkpoint would drop what was in flight."""
    host = Host(mapping(), unaligned_after_ms=0)
    host.sends(0, barrier(1)).sends(1, [1], barrier(1))
    state = in_flight(host)
    other = Host(mapping(name="first"), mapping(name="second"), storage=host.storage)
    for node, state_id in zip(other.task.chain.nodes, ("first", "second"), strict=True):
        node.state_id = state_id
    with pytest.raises(CheckpointError, match=r"'second' was the first of its task .* Disable chaining"):
        other.task.restore({"second": state}, host.storage)


def test_records_in_flight_on_an_input_that_is_gone_are_not_lost() -> None:
    """A program with one stream less in a union would drop what was on its way from that."""
    host = Host(mapping(), unaligned_after_ms=0)
    host.sends(0, barrier(1)).sends(1, [1], barrier(1))
    state = in_flight(host)
    with pytest.raises(
        CheckpointError, match="'vertex' has fewer inputs than when this unaligned checkpoint was taken"
    ):
        Host(sourced(Script()).task.chain.head, source=True, restored=state, storage=host.storage)


def test_what_it_is_called_in_the_manifest() -> None:
    """Another subtask could not tell it from state of the user's, and would not take its share after rescaling."""
    host = Host(mapping(), unaligned_after_ms=0)
    host.sends(0, barrier(1)).sends(1, [1], barrier(1))
    assert [part.redistribution for _, part in in_flight(host).lists] == [Redistribution.IN_FLIGHT]
