"""Results count once the checkpoint they belong to is complete."""

from __future__ import annotations

from penstock.jobmaster.results.held_back import HeldBack, HeldBackResults
from penstock.runtime.task.opaque import Opaque


def result(value: str, after_checkpoint: int, subtask: int = 0) -> HeldBack:
    return HeldBack(7, subtask, Opaque([value]), after_checkpoint)


def test_what_came_before_a_barrier_is_released_with_its_checkpoint() -> None:
    """A collected record would come a second time after a failure, or not at all."""
    results = HeldBackResults()
    first = [result("a", 0), result("x", 0, subtask=1)]
    second = [result("b", 1), result("c", 1)]
    for one in (*first, *second):
        results.add(one)
    assert results.release(1) == first
    results.add(last := result("d", 2))
    assert results.release(2) == second
    assert results.release(3) == [last]


def test_an_aborted_checkpoint_releases_nothing_by_itself() -> None:
    """Results of a checkpoint that was aborted would be lost, or come twice."""
    results = HeldBackResults()
    both = [result("a", 0), result("b", 1)]
    for one in both:
        results.add(one)
    assert results.release(2) == both
    assert results.release(2) == []
