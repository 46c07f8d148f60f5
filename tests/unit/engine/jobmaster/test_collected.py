"""Results count once the checkpoint they belong to is complete."""

from __future__ import annotations

from penstock.engine.jobmaster.results.collected import AttemptResults
from penstock.engine.runtime.ids import AttemptId
from penstock.engine.runtime.task.events import Opaque, Result


def result(value: str, after_checkpoint: int, subtask: int = 0) -> Result:
    return Result(3, subtask, 7, Opaque([value]), after_checkpoint)


def test_what_came_before_a_barrier_is_released_with_its_checkpoint() -> None:
    """A collected record would come a second time after a failure, or not at all."""
    results = AttemptResults(AttemptId(0, 0))
    first = [result("a", 0), result("x", 0, subtask=1)]
    second = [result("b", 1), result("c", 1)]
    for one in (*first, *second):
        results.hold_back(one)
    assert results.release(1) == first
    results.hold_back(last := result("d", 2))
    assert results.release(2) == second
    assert results.release(3) == [last]


def test_an_aborted_checkpoint_releases_nothing_by_itself() -> None:
    """Results of a checkpoint that was aborted would be lost, or come twice."""
    results = AttemptResults(AttemptId(0, 0))
    both = [result("a", 0), result("b", 1)]
    for one in both:
        results.hold_back(one)
    assert results.release(2) == both
    assert results.release(2) == []
