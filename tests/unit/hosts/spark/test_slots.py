"""The wait for executors: on a cluster they come some time after the session."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.common.errors import NotEnoughSlotsError
from penstock.hosts.spark.driver.held_slots import HELD_SLOTS, HeldSlots
from penstock.hosts.spark.driver.slots import check_registered, wait_for_slots


@pytest.fixture
def held() -> Iterator[HeldSlots]:
    yield HELD_SLOTS
    for job in ("a", "b"):
        HELD_SLOTS.release(job)


def session(master: str = "yarn") -> Any:
    conf = SimpleNamespace(get=lambda key, default=None: default)
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, getConf=lambda: conf, _jsc=None))


def test_a_job_waits_until_its_executors_have_registered(held: HeldSlots) -> None:
    """A job would be refused on an idle cluster, as its executors take some seconds to come."""
    held.hold("a", "orders", 6)
    counts = iter([0, 2, 5, 6])
    wait_for_slots(session(), "a", 6, 60_000, registered=lambda _: next(counts))
    assert list(counts) == []


def test_slots_of_the_jobs_before_are_not_counted_twice(held: HeldSlots) -> None:
    """The second job of a program would start with slots that the first one waits for, and both would hang."""
    held.hold("a", "orders", 6)
    held.hold("b", "payments", 4)
    assert (held.held_before("a"), held.held_before("b")) == (0, 6)
    check_registered(session(), "a", 6, registered=lambda _: 9)
    with pytest.raises(NotEnoughSlotsError, match=r"needs 4 slots at once, in addition to 6 of other jobs"):
        check_registered(session(), "b", 4, registered=lambda _: 9)
    held.release("a")
    check_registered(session(), "b", 4, registered=lambda _: 9)


def test_the_error_after_the_wait_has_the_numbers(held: HeldSlots) -> None:
    """A job would wait forever without saying for what."""
    held.hold("a", "orders", 6)
    with pytest.raises(NotEnoughSlotsError) as raised:
        wait_for_slots(session(), "a", 6, 1, registered=lambda _: 2)
    assert "needs 6 slots at once" in str(raised.value) and "yarn has given 2 of 6" in str(raised.value)
    assert "slot.request.timeout" in str(raised.value)


def test_slots_of_this_machine_are_there_at_once() -> None:
    """Each local job would ask Spark once more."""
    wait_for_slots(session("local[2]"), "a", 6, 0, registered=lambda _: 0)
