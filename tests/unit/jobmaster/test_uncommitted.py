"""Results count once the checkpoint they belong to is complete."""

from __future__ import annotations

from penstock.jobmaster.results.uncommitted import Uncommitted

TASK, OTHER = (1, 0), (1, 1)


def test_what_came_before_a_barrier_is_released_with_its_checkpoint() -> None:
    """A collected record would come a second time after a failure, or not at all."""
    results = Uncommitted()
    results.add(TASK, 7, "a", 0)
    results.add(OTHER, 7, "x", 0)
    results.add(TASK, 7, "b", 1)
    results.add(TASK, 7, "c", 1)
    assert results.complete(1) == [(7, 0, "a"), (7, 1, "x")]
    results.add(TASK, 7, "d", 2)
    assert results.complete(2) == [(7, 0, "b"), (7, 0, "c")]
    assert results.complete(3) == [(7, 0, "d")]


def test_one_that_was_given_up_releases_nothing_by_itself() -> None:
    """Results of a checkpoint that never came about would be lost, or come twice."""
    results = Uncommitted()
    results.add(TASK, 7, "a", 0)
    results.add(TASK, 7, "b", 1)
    assert results.complete(2) == [(7, 0, "a"), (7, 0, "b")]
    assert results.complete(2) == []
