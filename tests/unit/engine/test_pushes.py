"""Pushes: the last row of a burst is followed by an empty one, and only that."""

from __future__ import annotations

from penstock.engine.pushes import PUSH_NS, Pushes


def test_a_target_that_was_written_to_is_pushed_once() -> None:
    """The last record of a burst would wait in the JVM for the next one; or empty rows would flow for ever."""
    pushes = Pushes()
    assert (pushes.due(0), pushes.next_ns()) == ([], None)
    pushes.wrote(4, 100)
    assert pushes.next_ns() == 100 + PUSH_NS
    assert pushes.due(100 + PUSH_NS - 1) == []
    assert pushes.due(100 + PUSH_NS) == [4]
    assert (pushes.due(10 * PUSH_NS), pushes.next_ns()) == ([], None)


def test_nothing_is_pushed_while_data_flows() -> None:
    """Every row would cost two."""
    pushes = Pushes()
    for now in range(0, 20 * PUSH_NS, PUSH_NS // 2):
        assert pushes.due(now) == []
        pushes.wrote(1, now)


def test_the_oldest_comes_first() -> None:
    """The host would sleep past the push of a quiet target because another is busy."""
    pushes = Pushes()
    pushes.wrote(1, 0)
    pushes.wrote(2, 10)
    pushes.wrote(1, 20)
    assert pushes.next_ns() == 10 + PUSH_NS
    assert pushes.due(15 + PUSH_NS) == [2]
    assert pushes.due(20 + PUSH_NS) == [1]
