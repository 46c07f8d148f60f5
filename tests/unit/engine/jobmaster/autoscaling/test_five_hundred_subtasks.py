"""A pipeline of five hundred subtasks: after each change of its load it has the right parallelism, and keeps it."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.engine.jobmaster.autoscaling.modelled_pipeline import STEP_MS, Modelled, Pipeline

from penstock.engine.jobmaster.autoscaling.settings import AutoscalerSettings

MINUTE_MS = 60_000
SETTINGS = AutoscalerSettings(
    stabilization_ms=MINUTE_MS, window_ms=3 * MINUTE_MS, scale_down_interval_ms=0, parallelism_max=1_000
)
HOUR_MS = 60 * MINUTE_MS
LOAD = 85_000.0
"""Records each second, at which all of it needs about 500 subtasks."""


def pipeline_of(offered: Callable[[int], float], cheaper: float = 1.0, tells_pending: bool = True) -> list[Modelled]:
    """Two sources, a fork, a join, a filter, keyed state with skew, two operators in the slots of others."""
    costs = {"orders": 200, "prices": 100, "parse": 400, "enrich": 1_100, "audit": 150, "join": 900, "totals": 350}
    us = {name: cost / cheaper for name, cost in costs.items()}
    return [
        Modelled("orders", 0, us["orders"], offered=offered, tells_pending=tells_pending),
        Modelled("prices", 0, us["prices"], offered=lambda now_ms: offered(now_ms) / 5, tells_pending=tells_pending),
        Modelled("parse", 1, us["parse"], (0,)),
        Modelled("enrich", 2, us["enrich"], (2,), selectivity=0.5),
        Modelled("audit", 2, us["audit"], (2,), selectivity=0.01),
        Modelled("join", 3, us["join"], (3, 1), selectivity=2.0, keyed=True, skew=0.1),
        Modelled("totals", 4, us["totals"], (5,), selectivity=0.1, keyed=True),
        Modelled("out", 5, 300 / cheaper, (6, 4)),
    ]


def check_is_right(pipeline: Pipeline) -> None:
    """No slot is overloaded; none has less than a third of its time to do, but where there are few subtasks."""
    for vertex, load in zip(pipeline.vertices, pipeline.loads(), strict=True):
        subtasks = pipeline.widths()[vertex.name]
        assert load < 0.95, f"{vertex.name} has too few subtasks: {pipeline.widths()}, {load:.2f}"
        assert load > 0.3 or subtasks <= 2, f"{vertex.name} has too many subtasks: {pipeline.widths()}, {load:.2f}"


@pytest.mark.thorough
def test_each_change_of_the_load_takes_three_steps_at_most() -> None:
    """A job would be rescaled again and again, and do nothing else, or stay too small for what comes."""
    rate = LOAD / 10
    pipeline = Pipeline(pipeline_of(lambda now_ms: rate), SETTINGS)
    for part, steps_most in ((0.1, 1), (1.0, 1), (1.1, 0), (0.2, 3), (0.6, 1), (0.1, 3), (1.0, 1)):
        rate = LOAD * part
        steps = pipeline.run(15 * MINUTE_MS)
        assert len(steps) <= steps_most, [str(step) for step in steps]
        check_is_right(pipeline)
        assert not pipeline.run(15 * MINUTE_MS), "it has what it needs"
        assert sum(pipeline.pending) < rate, "all that waited has been processed"
    assert 450 <= pipeline.subtasks <= 650, pipeline.widths()


@pytest.mark.thorough
def test_noise_and_skew_change_nothing() -> None:
    """Each gust of records would cost the job a second of silence."""
    pipeline = Pipeline(pipeline_of(lambda now_ms: LOAD), SETTINGS, noise=0.2, seed=7)
    assert len(pipeline.run(30 * MINUTE_MS)) <= 3
    check_is_right(pipeline)
    assert not pipeline.run(60 * MINUTE_MS)


@pytest.mark.thorough
def test_the_load_of_a_day_is_followed() -> None:
    """A job would be too small by day, or too large by night."""
    day_ms = 720 * MINUTE_MS

    def offered(now_ms: int) -> float:
        return LOAD / 20 * (1 + 0.8 * math.sin(2 * math.pi * now_ms / day_ms))

    pipeline = Pipeline(pipeline_of(offered), SETTINGS, noise=0.05, seed=1)
    pipeline.run(60 * MINUTE_MS)
    overloaded = 0
    decided = 0
    for _ in range(2 * day_ms // (10 * MINUTE_MS)):
        decided += len(pipeline.run(10 * MINUTE_MS))
        overloaded += max(pipeline.loads()) > 1.1
    # Up nine times as much, in steps of a utilization from 0.7 to 1, and down again, twice.
    assert decided <= 40
    assert overloaded <= 4, "as long as it takes to see it"


def test_a_source_that_does_not_know_what_is_left_is_found_out_in_steps() -> None:
    """Only sources of Kafka would ever be followed, or one that is held back would get all the slots there are."""
    rate = LOAD / 40
    pipeline = Pipeline(pipeline_of(lambda now_ms: rate, tells_pending=False), SETTINGS)
    steps = pipeline.run(60 * MINUTE_MS)
    assert 1 <= len(steps) <= 4, [str(step) for step in steps]
    assert all(one.after <= 4 * one.before / 0.6 + 1 for step in steps for one in step.vertices)
    check_is_right(pipeline)
    assert not pipeline.run(60 * MINUTE_MS)


PART = st.floats(0.02, 1.0)


@pytest.mark.thorough
@settings(max_examples=3, derandomize=True)
@example(before=0.3125, after=0.46875, noise=0.125, seed=662, cheaper=10.0)
@given(before=PART, after=PART, noise=st.floats(0.0, 0.2), seed=st.integers(0, 10_000), cheaper=st.floats(8.0, 40.0))
def test_it_never_oscillates(before: float, after: float, noise: float, seed: int, cheaper: float) -> None:
    """There would be a load at which a job is rescaled for ever."""
    rate = LOAD * before
    pipeline = Pipeline(pipeline_of(lambda now_ms: rate, cheaper), SETTINGS, noise=noise, seed=seed)
    pipeline.run(45 * MINUTE_MS)
    rate = LOAD * after
    steps = pipeline.run(45 * MINUTE_MS)
    assert len(steps) <= 5, [str(step) for step in steps]
    # What noise has added may be taken away an hour later. After that it stays.
    pipeline.run(2 * HOUR_MS)
    later = pipeline.run(3 * HOUR_MS)
    assert not later, [str(step) for step in later]
    assert max(pipeline.loads()) < 1.0


@pytest.mark.parametrize("limits", [{}, {"scale_down_factor_max": 1.0}])
def test_subtasks_that_share_slots_do_not_lose_too_many(limits: dict[str, float]) -> None:
    """Two operators that share slots would each be given what the other leaves now, and both be overloaded then."""
    chosen = AutoscalerSettings(
        stabilization_ms=STEP_MS, window_ms=MINUTE_MS, scale_down_interval_ms=0, utilization_min=0.5, **limits
    )
    vertices = [
        Modelled("source", 0, 1, offered=lambda now_ms: 1_000.0),
        Modelled("left", 1, 1_000, (0,)),
        Modelled("right", 1, 1_000, (0,)),
    ]
    pipeline = Pipeline(vertices, chosen, {"left": 40, "right": 40})
    for _ in range(60):
        pipeline.run(MINUTE_MS)
        assert max(pipeline.loads()) < 1.0, pipeline.widths()
    assert pipeline.widths()["left"] <= 5
