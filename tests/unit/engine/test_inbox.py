"""A slot's input: in order, not too far ahead, and with a bell."""

from __future__ import annotations

import threading
import time

import pyarrow as pa

from penstock.engine.inbox import _BATCHES_AHEAD, Inbox
from penstock.engine.rows import buffers_of, to_batch


def batch(n: int) -> pa.RecordBatch:
    return to_batch([(0, str(n).encode())])


def number(batch: pa.RecordBatch) -> int:
    return int(next(buffers_of(batch)))


def until(condition) -> None:
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_batches_come_in_order_then_the_end() -> None:
    """Records of a sender would overtake each other."""
    inbox = Inbox(batch(n) for n in range(50))
    numbers = []
    while len(numbers) < 50:
        got = inbox.get(1_000_000_000)
        if got is not None:
            numbers.append(number(got))
    assert numbers == list(range(50))
    until(inbox.ended.is_set)
    assert inbox.get(None) is None, "the end rings"


def test_it_reads_only_a_little_ahead() -> None:
    """Back pressure would end here: the worker would take in what it can't process."""
    taken = []

    def batches():
        for n in range(100):
            taken.append(n)
            yield batch(n)

    inbox = Inbox(batches())
    until(lambda: len(taken) > _BATCHES_AHEAD)
    time.sleep(0.05)
    assert len(taken) == _BATCHES_AHEAD + 1
    for _ in range(5):
        assert inbox.get(1_000_000_000) is not None
    until(lambda: len(taken) == _BATCHES_AHEAD + 6)


def test_the_bell_wakes_who_waits() -> None:
    """A cancel would be noticed with the next record, which may never come."""
    gate = threading.Event()
    inbox = Inbox(iter(lambda: gate.wait() and None, None))
    threading.Timer(0.05, inbox.ring).start()
    assert inbox.get(None) is None
    assert not inbox.ended.is_set()
    gate.set()


def test_it_waits_no_longer_than_it_is_told() -> None:
    """Timers and flushes would wait for the next record."""
    gate = threading.Event()
    inbox = Inbox(iter(lambda: gate.wait() and None, None))
    began = time.monotonic()
    assert inbox.get(0) is None
    assert inbox.get(-5) is None
    assert time.monotonic() - began < 0.05
    assert inbox.get(30_000_000) is None
    assert 0.02 < time.monotonic() - began < 1
    gate.set()


def test_a_broken_input_ends_the_slot() -> None:
    """A worker whose pipe is gone would wait for ever."""

    def broken():
        yield batch(1)
        raise OSError("pipe")

    inbox = Inbox(broken())
    until(inbox.ended.is_set)
    assert number(inbox.get(0)) == 1
    assert inbox.get(0) is None
