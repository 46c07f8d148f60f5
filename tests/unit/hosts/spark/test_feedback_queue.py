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
