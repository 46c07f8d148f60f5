"""The recorded plan of a rescaled job, for its next run, and the slots that the job holds for it."""

from __future__ import annotations

import pytest
from tests.unit.engine.jobmaster.played_job import plan

from penstock.common.errors import NotEnoughSlotsError
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.rescaling import fixed_parallelism, rescaled
from penstock.hosts.spark.driver.pipelined_run import RecordedPlan


class Store:
    """Note records of plans and holds of slots, in order."""

    def __init__(self, graph: JobGraph) -> None:
        self.happened: list[tuple[str, int]] = []
        self.fails = self.refuses = False
        self.plan = RecordedPlan(graph, self._keep, self._hold)

    def _keep(self, graph: JobGraph) -> None:
        if self.fails:
            raise OSError("the disk is full")
        self.happened.append(("plan", graph.slots))

    def _hold(self, slots: int) -> None:
        if self.refuses:
            raise NotEnoughSlotsError("others have them")
        self.happened.append(("slots", slots))

    def begins(self, graph: JobGraph) -> list[tuple[str, int]]:
        self.happened.clear()
        self.plan.before_attempt(graph)
        return self.happened


def with_parallelism(graph: JobGraph, parallelism: int) -> JobGraph:
    free = [vertex.id for vertex in graph.vertices if fixed_parallelism(vertex) is None]
    return rescaled(graph, dict.fromkeys(free, parallelism))


def test_slots_are_released_after_a_smaller_plan_is_recorded() -> None:
    """A job that was scaled down would be started again with all its subtasks, for which it has no slots, and fail."""
    large = with_parallelism(plan(), 4)
    small = with_parallelism(large, 1)
    store = Store(large)
    assert store.begins(small) == [("plan", small.slots), ("slots", small.slots)]
    assert store.begins(small) == [("slots", small.slots)], "a restart keeps nothing"


def test_a_plan_with_more_subtasks_is_recorded_after_its_slots_are_held() -> None:
    """If others had taken them, the job would be started again with a plan that it could not run."""
    small = with_parallelism(plan(), 1)
    large = with_parallelism(small, 4)
    store = Store(small)
    assert store.begins(large) == [("slots", large.slots), ("plan", large.slots), ("slots", large.slots)]
    store.refuses = True
    with pytest.raises(NotEnoughSlotsError):
        store.begins(with_parallelism(small, 8))
    store.refuses = False
    assert store.begins(large) == [("slots", large.slots)], "what was refused is not kept"
    assert store.begins(small) == [("plan", small.slots), ("slots", small.slots)], "it goes back to what it had"


def test_if_a_plan_cannot_be_recorded_the_job_holds_the_slots_of_the_previous_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A full disk would end a job that runs, or the next start of it."""
    large = with_parallelism(plan(), 4)
    small = with_parallelism(large, 1)
    store = Store(large)
    store.fails = True
    assert store.begins(small) == [("slots", large.slots)]
    assert "it has the previous one: the disk is full" in caplog.text
    grown = Store(small)
    grown.fails = True
    assert grown.begins(large) == [("slots", large.slots), ("slots", large.slots)]
    assert grown.begins(small) == [("slots", small.slots)], "it gives back what it can't keep a plan for"
    store.fails = False
    assert store.begins(small) == [("plan", small.slots), ("slots", small.slots)], "it is tried again"
