"""The transport over a worker's pipes: how long it waits."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterable
from typing import Any

import pytest

from penstock.hosts.spark.worker.transport import Inbox

DAY_NS = 86_400 * 1_000_000_000


@pytest.mark.parametrize("method", ["get", "wait"])
def test_the_next_timer_may_be_far_off(method: str) -> None:
    """State that is kept for a month, or a timer in a year, would end the worker."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as pipe:
        inbox = Inbox(pipe)
        inbox.ring()
        assert getattr(inbox, method)(400 * DAY_NS) is None
        assert not inbox.ended


def test_a_wait_ends_with_the_query() -> None:
    """A task that waits for a call which hangs would outlive its job."""
    ours, theirs = socket.socketpair()
    with ours, ours.makefile("rb") as pipe:
        inbox = Inbox(pipe)
        theirs.close()
        inbox.wait(10 * DAY_NS)
        assert inbox.ended


class _Waits:
    """Stands for `select.select`: notes how long it was to wait (s), and does not."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, read: Iterable[int], written: Any, failed: Any, seconds: float) -> tuple[list[int], ...]:
        self.seconds.append(seconds)
        return [], [], []


@pytest.mark.parametrize("method", ["get", "wait"])
def test_a_short_wait_is_not_rounded_to_milliseconds(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is due in 0.3 ms would wait for 1 ms."""
    waits = _Waits()
    monkeypatch.setattr(select, "select", waits)
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as pipe:
        inbox = Inbox(pipe)
        assert getattr(inbox, method)(300_000) is None
        assert not inbox.ended
    assert waits.seconds == [0.0003]


@pytest.mark.parametrize("method", ["get", "wait"])
def test_a_short_wait_ends_with_the_query_too(method: str) -> None:
    """A job whose next row is always due soon would outlive its query."""
    ours, theirs = socket.socketpair()
    with ours, ours.makefile("rb") as pipe:
        inbox = Inbox(pipe)
        theirs.close()
        getattr(inbox, method)(1_000_000)
        assert inbox.ended


def test_a_ring_ends_a_short_wait() -> None:
    """Messages of the JobMaster would be taken for input, and read from an empty pipe."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as pipe:
        inbox = Inbox(pipe)
        inbox.ring()
        assert inbox.get(9_000_000) is None
        assert not inbox.ended


def test_a_pipe_whose_number_select_cannot_take_is_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's function may have opened a thousand files: the worker would fail with "filedescriptor out of range"."""
    monkeypatch.setattr(select, "select", None)
    ours, theirs = socket.socketpair()
    try:
        number = os.dup2(ours.fileno(), 1_030)
    except OSError:
        pytest.skip("this process may not have so many open files")
    with ours, theirs, os.fdopen(number, "rb") as pipe:
        assert Inbox(pipe).get(300_000) is None
