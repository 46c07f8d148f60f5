"""Timers: in the order of time, one of each, and none left behind."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.runtime.time.timers import HeapTimerQueue, TimerHeap


def drained(queue: HeapTimerQueue, until: int) -> list:
    fired = []
    while (timer := queue.pop_due(until)) is not None:
        fired.append(timer)
    return fired


def drained_together(queue: HeapTimerQueue, until: int, most: int) -> list:
    """As `drained`, by several at a time."""
    fired = []
    while due := queue.pop_all_due(until, most):
        assert len(due) <= most and len({timestamp for _, timestamp, _ in due}) == 1
        fired += [(timestamp, key, namespace) for key, timestamp, namespace in due]
    return fired


def test_timers_fire_in_order_up_to_the_time_reached() -> None:
    """A session would end before its start."""
    queue = HeapTimerQueue()
    for timestamp, key in ((5, "a"), (3, "b"), (9, "c"), (5, "b")):
        queue.register(timestamp, key)
    assert queue.next_timestamp() == 3
    assert drained(queue, 2) == []
    assert drained(queue, 5) == [(3, "b", None), (5, "a", None), (5, "b", None)]
    assert (queue.next_timestamp(), len(queue)) == (9, 1)


def test_a_timer_registered_twice_fires_once() -> None:
    """Each record of a key would add another firing for the same minute."""
    queue = HeapTimerQueue()
    for _ in range(3):
        queue.register(5, "a")
        queue.register(5, "a", "window")
    assert drained(queue, 5) == [(5, "a", None), (5, "a", "window")]
    queue.register(5, "a")
    assert drained(queue, 5) == [(5, "a", None)]


def test_a_deleted_timer_does_not_fire() -> None:
    """A timer that was deleted would fire."""
    queue = HeapTimerQueue()
    for key in "abc":
        queue.register(5, key)
    queue.register(7, "a")
    for key in "abc":
        queue.delete(5, key)
    queue.delete(5, "a")
    queue.delete(99, "never there")
    assert queue.next_timestamp() == 7
    assert drained(queue, 10) == [(7, "a", None)]
    assert queue.next_timestamp() is None


def test_timers_set_in_the_past_while_others_fire_come_next() -> None:
    """A function that catches up in steps would take its steps in the wrong order."""
    queue = HeapTimerQueue()
    queue.register(5, "a")
    queue.register(8, "b")
    fired = []
    while (timer := queue.pop_due(10)) is not None:
        fired.append(timer[:2])
        if timer[:2] == (8, "b"):
            queue.register(2, "past")
            queue.register(9, "ahead")
            queue.register(11, "later")
    assert fired == [(5, "a"), (8, "b"), (2, "past"), (9, "ahead")]
    assert queue.next_timestamp() == 11


def test_what_happens_to_a_timestamp_while_it_fires() -> None:
    """A timer that its neighbour deletes or sets again would be lost, or fire for ever."""
    queue = HeapTimerQueue()
    for key in "abcd":
        queue.register(5, key)
    assert queue.pop_due(5) == (5, "a", None)
    queue.delete(5, "c")
    queue.register(5, "d")
    queue.register(5, "new")
    assert drained(queue, 5) == [(5, "new", None), (5, "b", None), (5, "d", None)]
    assert len(queue) == 0


def test_a_firing_timestamp_that_was_emptied_begins_anew() -> None:
    """Timers set at the same moment later on would fire in reverse."""
    queue = HeapTimerQueue()
    queue.register(5, "a")
    assert drained(queue, 5) == [(5, "a", None)]
    for key in "xyz":
        queue.register(5, key)
    assert [key for _, key, _ in drained(queue, 5)] == ["x", "y", "z"]


def test_listing_and_clearing() -> None:
    """A snapshot would hold timers that have fired, or miss some that have not."""
    queue = HeapTimerQueue()
    for timestamp, key in ((5, "b"), (3, "a"), (5, "a")):
        queue.register(timestamp, key)
    queue.delete(3, "a")
    assert list(queue) == [(5, "b", None), (5, "a", None)]
    queue.clear()
    assert (list(queue), len(queue), queue.next_timestamp(), queue.pop_due(10)) == ([], 0, None, None)


@pytest.mark.thorough
@pytest.mark.timeout(120)
def test_a_million_timers_at_one_moment_fire_quickly() -> None:
    """The end of an hour, when all hourly windows close, would stop the job for minutes."""
    queue = HeapTimerQueue()
    for key in range(1_000_000):
        queue.register(3_600_000, key)
    assert [queue.pop_due(3_600_000)[1] for _ in range(1_000_000)][::250_000] == [0, 250_000, 500_000, 750_000]


@pytest.mark.parametrize("most", [1, 2, 100])
def test_timers_of_one_moment_come_together_in_their_order(most: int) -> None:
    """An interval join would free its records in another order than it took them, or keep some for ever."""
    queue = HeapTimerQueue()
    queue.register_all([(key, timestamp, None) for timestamp in (5, 3) for key in "abca"])
    queue.register(9, "later")
    assert queue.pop_due(3) == (3, "a", None), "one of those of a moment may have come alone"
    assert drained_together(queue, 5, most) == [(3, "b", None), (3, "c", None), *((5, key, None) for key in "abc")]
    queue.register(5, "again")
    assert (queue.next_timestamp(), drained_together(queue, 8, most)) == (5, [(5, "again", None)])
    assert (queue.next_timestamp(), len(queue)) == (9, 1)


ACTIONS = st.tuples(st.sampled_from(["register", "delete", "fire"]), st.integers(0, 12), st.integers(0, 3))


@given(st.lists(ACTIONS, max_size=60))
def test_random_actions_are_those_of_a_sorted_set(actions) -> None:
    """Some mix of setting, deleting and firing would lose a timer."""
    queue, model = HeapTimerQueue(), set()
    for what, timestamp, key in actions:
        if what == "register":
            queue.register(timestamp, key)
            model.add((timestamp, key))
        elif what == "delete":
            queue.delete(timestamp, key)
            model.discard((timestamp, key))
        else:
            fired = drained_together(queue, timestamp, key) if key else drained(queue, timestamp)
            assert [t for t, _, _ in fired] == sorted(t for t, _, _ in fired)
            due = {timer for timer in model if timer[0] <= timestamp}
            assert {(t, k) for t, k, _ in fired} == due
            assert len(fired) == len(due)
            model -= due
        assert queue.next_timestamp() == min((t for t, _ in model), default=None)
        assert len(queue) == len(model)
        assert {(t, k) for t, k, _ in queue} == model


SNAPSHOTS = st.tuples(st.sampled_from(["freeze", "compact", "release"]), st.integers(0, 3), st.booleans())


@given(st.lists(ACTIONS | SNAPSHOTS, max_size=60))
def test_a_chain_of_snapshots_gives_the_timers_back(actions) -> None:
    """After a restart a timer would be missing, or one would fire that had fired or was deleted."""
    queue, chain, under_way = HeapTimerQueue(), [], []
    for what, number, other in actions:
        match what:
            case "register":
                queue.register(number, other)
            case "delete":
                queue.delete(number, other)
            case "fire":
                drained_together(queue, number, other) if other > 1 else drained(queue, number)
            case "compact":
                queue.compact(number)
            case "release" if under_way:
                under_way.pop(0).release()
            case "freeze":
                frozen = queue.freeze(full=other or not chain)
                under_way.append(frozen)
                written = [
                    part for entry_keys, values in frozen.pieces() for part in zip(entry_keys, values, strict=True)
                ]
                chain = [written] if frozen.full else [*chain, written]
                restored = HeapTimerQueue()
                for part in chain:
                    restored.restore([entry_key for entry_key, _ in part], [value for _, value in part])
                assert sorted(restored) == sorted(queue)
                assert restored.next_timestamp() == queue.next_timestamp()
                assert not list(restored.freeze(full=False).pieces()), "nothing has changed since"
                if number == 0:
                    # The job goes on with what was restored, and with the chain.
                    queue, under_way = restored, []


@pytest.mark.thorough
def test_a_timer_that_is_moved_leaves_nothing_behind() -> None:
    """A session timeout that moves with each record would fill the memory until event time has passed all its moves."""
    queue = HeapTimerQueue()
    queue.register(10_000_000, "other")
    tracemalloc.start()
    for number in range(200_000):
        queue.register(number + 1_000_000, "key")
        queue.delete(number + 999_999, "key")
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert list(queue) == [(1_199_999, "key", None), (10_000_000, "other", None)]
    assert size < 100_000, f"{size} bytes"


def test_what_is_left_after_many_deletions_fires_in_order() -> None:
    """A rebuilt heap would fire timers out of order, or lose one."""
    queue = HeapTimerQueue()
    times = list(range(0, 5_000, 5))
    Random(3).shuffle(times)
    for at in times:
        queue.register(at, "a")
        queue.register(at + 1, "b")
    for at in times:
        if at % 3:
            queue.delete(at, "a")
        if at % 2:
            queue.delete(at + 1, "b")
    expected = sorted([*((t, "a") for t in times if not t % 3), *((t + 1, "b") for t in times if not t % 2)])
    fired = []
    while (due := queue.pop_due(10_000)) is not None:
        fired.append(due[:2])
    assert fired == expected and not queue


class Hashed:
    """A key that counts how often it is looked up."""

    count = 0

    def __hash__(self) -> int:
        Hashed.count += 1
        return id(self)


def test_the_first_of_many_timers_of_a_moment_is_found_at_once() -> None:
    """Five million timers of one moment would hold the task for seconds before the first of them fires."""
    heap, keys = TimerHeap(), [Hashed() for _ in range(5_000)]
    for key in keys:
        heap.add((key, 7, None))
    Hashed.count = 0
    assert heap.pop(7) == (keys[0], 7, None)
    assert Hashed.count < 10
    # What is added while they fire comes next; what is deleted does not fire.
    heap.add(("next", 7, None))
    assert heap.add((keys[1], 7, None)) is False
    assert heap.discard((keys[2], 7, None))
    assert [heap.pop(7)[0] for _ in range(3)] == ["next", keys[1], keys[3]]
    assert [heap.pop(7)[0] for _ in range(4_996)] == keys[4:]
    assert heap.next_timestamp() is None


def test_many_timers_that_become_few_fire_in_order() -> None:
    """After most were deleted, those that are added would fire before those that wait."""
    heap = TimerHeap()
    for number in range(2_000):
        heap.add((number, 7, None))
    for number in range(3, 2_000):
        heap.discard((number, 7, None))
    heap.add(("last", 7, None))
    assert [heap.pop(7)[0] for _ in range(4)] == [0, 1, 2, "last"]
