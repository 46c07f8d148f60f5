"""Figures of operators, as REST has them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.service.rest.served import Served

from penstock.service.dashboard.job_figures import (
    METRICS,
    VertexFigures,
    lag_ms,
    metrics_of,
    subtask_metric_names,
    subtasks_of,
    vertices_of,
)

LOWEST = -(1 << 63)


def figures(served: Served) -> list[VertexFigures]:
    asked = ",".join(METRICS)
    details = served.get("/jobs/id")
    found = [served.get(f"/jobs/id/vertices/{v['id']}/subtasks/metrics?get={asked}") for v in details["vertices"]]
    return vertices_of(details, {v["id"]: metrics_of(f) for v, f in zip(details["vertices"], found, strict=True)})


def test_operators_have_the_figures_of_rest(served: Served) -> None:
    """Who looks for a slow operator would be led to another one."""
    source, sums = figures(served)
    assert (source.level, sums.level) == (0, 1)
    assert [one.source for one in sums.inputs] == [source.id] and sums.inputs[0].strategy == "HASH"
    assert (sums.in_per_s, sums.out_per_s) == (100, 200)
    assert (round(sums.busy, 2), round(sums.back_pressure, 2)) == (0.33, 0.17)
    assert sums.lag_ms is not None and sums.latency_mean_ms is None


def test_a_job_without_figures_is_drawn_all_the_same(served: Served) -> None:
    """The page of a job that has ended would be empty."""
    source, _ = vertices_of(served.get("/jobs/id"), {})
    assert (source.name, source.in_per_s, source.lag_ms) == ("Collection Source", 0, None)


def test_what_has_ended_has_its_totals(served: Served) -> None:
    """A rate says nothing of it: it is 0, however much there was."""
    details = served.get("/jobs/id")
    for one in details["vertices"]:
        one["status"] = "FINISHED"
    _, sums = vertices_of(details, {})
    assert sums.has_ended and (sums.read, sums.written) == (300, 600)
    assert (round(sums.busy, 2), round(sums.back_pressure, 2)) == (0.33, 0.17)
    details["vertices"][1]["metrics"] |= {f"accumulated-{kind}-time": 0 for kind in ("busy", "idle", "backpressured")}
    assert vertices_of(details, {})[1].busy == 0


@pytest.mark.parametrize(
    ("more", "heat"),
    [
        ({}, "calm"),
        ({"busy": 0.7}, "busy"),
        ({"busy": 0.95}, "hot"),
        ({"busy": 0.95, "back_pressure": 0.6}, "pressed"),
        ({"busy": 0.95, "status": "CREATED"}, "off"),
    ],
)
def test_the_colour_tells_the_slow_one_from_those_that_wait_for_it(more: dict[str, Any], heat: str) -> None:
    """A source that is held back would look like the one that is too slow."""
    given: dict[str, Any] = {"id": "v", "name": "v", "status": "RUNNING", "parallelism": 1, "max_parallelism": 128}
    assert VertexFigures(**given | {"level": 0, "inputs": ()} | more).heat == heat


def test_no_watermark_is_no_delay_of_millions_of_years() -> None:
    """A job without event time would be shown as hopelessly late."""
    assert lag_ms(None, 5) is None and lag_ms(LOWEST, 5) is None and lag_ms(-LOWEST - 1, 5) is None
    assert lag_ms(2, 5) == 3


def test_subtasks_have_the_figures_of_rest(served: Served) -> None:
    """Skew would be looked for in the wrong subtask."""
    path = served.vertex(1)
    names = ",".join(subtask_metric_names(0, 1))
    (one,) = subtasks_of(served.get(path), served.get(f"{path}/metrics?get={names}"))
    assert (one.index, one.status, one.slot) == (0, "RUNNING", "level-1-slot-0")
    assert (one.in_per_s, one.out_per_s, one.read, one.written) == (100, 200, 300, 600)
    assert (round(one.busy, 2), round(one.back_pressure, 2)) == (0.33, 0.17)
