"""What is measured, and for how long: rates of a window, what a source would emit, and what lasts."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.common.configuration.choices import MetricAggregator
from penstock.engine.jobmaster.autoscaling.autoscaler import Autoscaler, Misfit, Persistence
from penstock.engine.jobmaster.autoscaling.rates import Counters, counters_of, rates_of
from penstock.engine.jobmaster.autoscaling.settings import AutoscalerSettings
from penstock.engine.jobmaster.autoscaling.topology import ScaledVertex
from penstock.engine.rpc.messages import OperatorReport, TaskReport
from penstock.engine.runtime.ids import SubtaskId

TOO_FEW = {Misfit.TOO_FEW}
SECOND_NS = 1_000_000_000
SOURCE = ScaledVertex(0, "source", 0, 1, 128)


@pytest.mark.parametrize("pending", [None, -1, float("nan"), float("inf"), "many"])
def test_a_source_that_does_not_know_what_is_left(pending: Any) -> None:
    """A job would end by a gauge of its own source, or be given two hundred subtasks for it."""
    report = TaskReport(
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, [OperatorReport("a", 0, 5, 0, 0, {"pendingRecords": pending})]
    )
    assert counters_of(report, True, 1_000).pending is None


@pytest.mark.parametrize(
    ("idle", "held", "pending", "demand"),
    [
        (0.0, 0.5, None, 200.0),
        (0.0, 0.99, None, 400.0),
        (0.2, 0.5, None, 100.0),
        (0.0, 0.0, None, 100.0),
        (0.0, 0.5, (10, 70), 160.0),
        (0.0, 0.5, (70, 10), 40.0),
    ],
)
def test_what_a_source_would_emit(idle: float, held: float, pending: tuple[int, int] | None, demand: float) -> None:
    """One that waits for data now and then would be taken for one that has fallen behind, or the other way round."""
    before, after = pending or (None, None)
    task = SubtaskId(0, 0)
    first = Counters(5_000, 50, (50,), 0, 0, 0, before)
    last = Counters(6_000, 150, (150,), 0, round(idle * SECOND_NS), round(held * SECOND_NS), after)
    (rates,) = rates_of([SOURCE], {task: first}, {task: last}, MetricAggregator.MAX)
    assert rates.records_in == 100 and rates.demand == pytest.approx(demand)


def test_what_is_so_for_a_whole_window_lasts() -> None:
    """A mean of two loads would decide, and the job be rescaled twice for one change."""
    persistence = Persistence(100)
    assert persistence.look(set(), 0) == set()
    assert persistence.look(TOO_FEW, 10) == set()
    assert persistence.look(set(), 60) == set(), "it is well again"
    assert persistence.look(TOO_FEW, 70) == set() and persistence.look(TOO_FEW, 169) == set()
    assert persistence.look(TOO_FEW, 170) == TOO_FEW


def test_what_is_so_at_the_first_look_has_lasted() -> None:
    """A job that is too small from its start would wait for a window more."""
    persistence = Persistence(100)
    assert persistence.look(TOO_FEW, 0) == TOO_FEW
    persistence.clear()
    assert persistence.look(TOO_FEW, 0) == TOO_FEW


def test_tasks_that_restore_their_state_do_not_count() -> None:
    """Their counters stand still, and the operator would seem to have nothing to do."""
    autoscaler = Autoscaler(AutoscalerSettings(stabilization_ms=0, window_ms=10, scale_down_interval_ms=0))
    autoscaler.started([SOURCE, ScaledVertex(1, "map", 1, 8, 128)], 1)

    def reports(initializing: bool) -> list[TaskReport]:
        tasks = [(0, 0), *((1, subtask) for subtask in range(8))]
        operator = OperatorReport("", 0, 0, 0, 0, {})
        return [TaskReport(*task, *[0] * 10, [operator], initializing=initializing) for task in tasks]

    for now_ms in range(1, 30):
        autoscaler.reported(reports(initializing=True), now_ms)
        assert autoscaler.propose(now_ms) is None
    for now_ms in range(30, 40):
        autoscaler.reported(reports(initializing=False), now_ms)
        assert autoscaler.propose(now_ms) is None
    assert autoscaler.propose(40) is not None
