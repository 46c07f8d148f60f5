"""Which jobs of a process hold how many slots of its session."""

from __future__ import annotations

import pytest

from penstock.common.errors import NotEnoughSlotsError
from penstock.hosts.spark.driver.held_slots import HeldSlots


def two_jobs() -> HeldSlots:
    held = HeldSlots()
    held.hold("a", "first", 3)
    held.hold("b", "second", 2)
    return held


def test_earlier_jobs_get_slots_first() -> None:
    """Two jobs would each have half of their slots, and wait for each other forever."""
    held = two_jobs()
    assert (held.held_before("a"), held.held_before("b"), held.total) == (0, 3, 5)


def test_a_job_in_batch_mode_holds_the_session_and_no_slots() -> None:
    """The session would be stopped beneath it."""
    held = HeldSlots()
    held.hold("a", "batch", 0)
    assert held.is_used and held.total == 0


def test_released_slots_are_free() -> None:
    """The next job of a notebook would wait for slots of one that has ended."""
    held = two_jobs()
    held.release("a")
    assert (held.held_before("b"), held.total) == (0, 2)
    held.release("a")
    held.release("b")
    assert not held.is_used


def test_it_names_the_jobs() -> None:
    """A user who is refused slots would not know which job to stop."""
    assert str(two_jobs()) == "'first' (3), 'second' (2)"


class Others:
    """Other processes of a cluster, which have the rest."""

    def reserve(self, slots: int) -> None:
        if slots > 4:
            raise NotEnoughSlotsError("others have them")

    def free(self, held: int) -> int:
        return 4 - held


def test_rejected_slots_are_not_held() -> None:
    """The next region of the job would begin with slots that it has not, and its plan be kept."""
    held = HeldSlots()
    held.shared = Others()
    held.hold("a", "job", 2)
    for _ in range(2):
        with pytest.raises(NotEnoughSlotsError):
            held.hold("a", "job", 5)
        assert held.total == 2
    with pytest.raises(NotEnoughSlotsError):
        held.hold("b", "other", 5)
    assert held.total == 2 and str(held) == "'job' (2)"
