"""Feedback to a slot is queued in order, whatever its size, and wakes the slot."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.hosts.spark.worker.side_channel import TURN_BYTES, FeedbackQueue


class Bell:
    def __init__(self) -> None:
        self.rings = 0

    def __call__(self) -> None:
        self.rings += 1


def test_it_comes_in_order_and_rings_once() -> None:
    """A barrier would overtake records of its loop, or the slot sleep while a record waits."""
    bell = Bell()
    fed_back = FeedbackQueue(1 << 20, bell)
    for buffer in (b"one", b"two", b"three"):
        fed_back.put(buffer)
    assert bell.rings == 1 and len(fed_back) == 3
    assert fed_back.take() == [b"one", b"two", b"three"]
    assert fed_back.take() == []
    fed_back.put(b"four")
    assert bell.rings == 2, "it was empty, and the slot may sleep"


def test_a_slot_sleeps_until_there_is_as_much_as_it_needs() -> None:
    """A head would wake for the end of a superstep of each sender, or sleep although all have come."""
    bell = Bell()
    fed_back = FeedbackQueue(1 << 20, bell)
    assert fed_back.take(3) == []
    fed_back.put(b"one")
    fed_back.put(b"two")
    assert bell.rings == 0 and fed_back.take(3) == []
    fed_back.put(b"three")
    assert bell.rings == 1 and fed_back.take(3) == [b"one", b"two", b"three"]
    fed_back.put(b"four")
    assert bell.rings == 2, "it may need one now"
    assert fed_back.take() == [b"four"]


def test_what_the_slots_own_thread_puts_does_not_wake_it() -> None:
    """It would turn once more for nothing; and with others' buffers it has all that it needs when it looks."""
    bell = Bell()
    fed_back = FeedbackQueue(1 << 20, bell)
    assert fed_back.take(2) == []
    fed_back.put(b"own", wakes=False)
    assert bell.rings == 0
    fed_back.put(b"other")
    assert bell.rings == 1 and fed_back.take(2) == [b"own", b"other"]


def test_a_slot_that_needs_less_gets_what_has_come() -> None:
    """What came while it needed more would wait for the next buffer."""
    fed_back = FeedbackQueue(1 << 20, Bell())
    assert fed_back.take(2) == []
    fed_back.put(b"one")
    assert fed_back.take(1) == [b"one"]


def test_a_turn_takes_a_part() -> None:
    """Input from outside, and barriers with it, would wait for all that a loop has made."""
    fed_back = FeedbackQueue(1 << 20, Bell())
    half = bytes(TURN_BYTES // 2 + 1)
    for _ in range(3):
        fed_back.put(half)
    assert len(fed_back.take()) == 2
    assert len(fed_back.take()) == 1


def test_it_never_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop whose body makes more than its head takes would come to a standstill, or fill the memory."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fed_back = FeedbackQueue(100, Bell())
    buffers = [bytes([number]) * 60 for number in range(50)]
    for buffer in buffers:
        fed_back.put(buffer)
    assert fed_back.take() == buffers, "beyond its memory it is on disk"
    fed_back.close()
    assert list(tmp_path.iterdir()) == []
