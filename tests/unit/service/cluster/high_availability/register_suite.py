"""What holds for each register: a test file makes `register` a fixture, and inherits these tests."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest

from penstock.service.cluster.high_availability.pointers import NotLeadingError
from penstock.service.cluster.high_availability.register import Register

Make = Callable[..., Register]
"""A process's register of one cluster, the test's alone. It is closed behind the test. `lease_ms`: its time."""
LONG_MS = 60_000
"""Longer than `elected` waits."""


def made_by(create: Callable[[int], Register], lease_ms: int) -> Iterator[Make]:
    """For the fixture. `lease_ms`: the time of those that name none."""
    with contextlib.ExitStack() as made:
        yield lambda lease_ms=lease_ms: made.enter_context(contextlib.closing(create(lease_ms)))


def elected(register: Register) -> int:
    """The term that it leads, which nobody else wants."""
    until_s = time.monotonic() + 30
    while (term := register.look()) is None:
        assert time.monotonic() < until_s
        time.sleep(0.05)
    assert register.claim(term)
    return term


class RegisterSuite:
    def test_one_leads_and_says_where(self, register: Make) -> None:
        """Two would lead at a start; or clients look for the leader and find nobody."""
        one, other = register(lease_ms=LONG_MS), register(lease_ms=LONG_MS)
        assert one.leader() is None
        term = elected(one)
        for _ in range(3):
            assert other.look() is None
        one.confirm("http://127.0.0.1:8081")
        leader = other.leader()
        assert leader is not None
        assert (leader.term, leader.url) == (term, "http://127.0.0.1:8081")

    def test_one_that_resigns_is_followed(self, register: Make) -> None:
        """All jobs would stand still after an orderly end, for the time of a lease."""
        one, other = register(lease_ms=LONG_MS), register(lease_ms=LONG_MS)
        before = elected(one)
        other.look()
        one.close()
        assert elected(other) > before

    def test_the_next_leader_finds_the_pointers(self, register: Make) -> None:
        """Jobs would be gone with the process that has taken them, or be as they were before."""
        one, other = register(), register()
        elected(one)
        pointers = one.pointers()
        for id, pointer in (("a", "state-1-1"), ("b", "state-1-2"), ("a", "state-1-3"), ("c", "state-1-4")):
            pointers.put(id, pointer)
        pointers.remove("b")
        pointers.remove("b")
        assert pointers.all() == {"a": "state-1-3", "c": "state-1-4"}
        one.close()
        elected(other)
        assert other.pointers().all() == {"a": "state-1-3", "c": "state-1-4"}
        other.pointers().put("a", "state-2-1")
        assert other.pointers().all() == {"a": "state-2-1", "c": "state-1-4"}

    def test_a_former_leader_changes_nothing(self, register: Make, depose: Callable[[Register], object]) -> None:
        """One that was stopped for a minute would take jobs that nobody runs, or undo what its successor has done."""
        former, leader = register(), register()
        elected(former)
        pointers = former.pointers()
        pointers.put("a", "state-1-1")
        leader.look()
        depose(former)
        elected(leader)
        leader.confirm("http://127.0.0.1:8082")
        leader.pointers().put("a", "state-2-1")
        for _ in range(2):
            with pytest.raises(NotLeadingError):
                pointers.put("a", "state-1-2")
            with pytest.raises(NotLeadingError):
                pointers.put("b", "state-1-3")
            with pytest.raises(NotLeadingError):
                pointers.remove("a")
            with pytest.raises(NotLeadingError):
                former.confirm("http://127.0.0.1:8081")
        assert leader.pointers().all() == {"a": "state-2-1"}
        found = register().leader()
        assert found is not None and found.url == "http://127.0.0.1:8082"
