"""Pushes: the last row of a burst is followed by an empty one, and only that."""

from __future__ import annotations

from penstock.hosts.spark.worker.pipelined_stage import PUSH_NS, Pushes


def rows(*targets: int) -> list[tuple[int, bytes]]:
    return [(target, b"row") for target in targets]


def test_a_target_that_was_written_to_is_pushed_once() -> None:
    """The last record of a burst would wait in the JVM for the next one; or empty rows would flow forever."""
    pushes = Pushes(immediate=False)
    assert (pushes.due([], 0, busy=False), pushes.next_ns()) == ([], None)
    assert pushes.due(rows(4), 100, busy=False) == []
    assert pushes.next_ns() == 100 + PUSH_NS
    assert pushes.due([], 100 + PUSH_NS - 1, busy=False) == []
    assert pushes.due([], 100 + PUSH_NS, busy=False) == [4]
    assert (pushes.due([], 10 * PUSH_NS, busy=False), pushes.next_ns()) == ([], None)


def test_nothing_is_pushed_while_data_flows() -> None:
    """Every row would cost two."""
    for at_once in (False, True):
        pushes = Pushes(at_once)
        for now in range(0, 20 * PUSH_NS, PUSH_NS // 2):
            assert pushes.due(rows(1), now, busy=True) == []


def test_the_oldest_comes_first() -> None:
    """The host would sleep past the push of a quiet target because another is busy."""
    pushes = Pushes(immediate=False)
    pushes.due(rows(1), 0, busy=False)
    pushes.due(rows(2), 10, busy=False)
    pushes.due(rows(1), 20, busy=False)
    assert pushes.next_ns() == 10 + PUSH_NS
    assert pushes.due([], 15 + PUSH_NS, busy=False) == [2]
    assert pushes.due([], 20 + PUSH_NS, busy=False) == [1]


def test_a_slot_with_nothing_left_to_do_pushes_at_once() -> None:
    """A record would wait for a millisecond in which nothing happens, at every exchange."""
    pushes = Pushes(immediate=True)
    assert pushes.due(rows(1), 0, busy=True) == []
    assert pushes.due(rows(2, 2), 10, busy=False) == [1, 2]
    assert (pushes.due([], 10 * PUSH_NS, busy=False), pushes.next_ns()) == ([], None)
