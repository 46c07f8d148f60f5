"""The transport over a worker's pipes: how long it waits."""

from __future__ import annotations

import socket

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
