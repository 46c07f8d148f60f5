"""What the autoscaler decides for one slow operator, and what it respects."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.unit.engine.jobmaster.autoscaling.modelled_pipeline import STEP_MS, Modelled, Pipeline

from penstock.common.configuration import Configuration
from penstock.common.configuration.autoscaler_options import ENABLED, UTILIZATION_TARGET
from penstock.common.configuration.choices import KeyGroupOrPartitionsAdjustMode, MetricAggregator
from penstock.common.errors import ConfigurationError
from penstock.engine.jobmaster.autoscaling.autoscaler import DelayedScaleDown, fit_to_free_slots
from penstock.engine.jobmaster.autoscaling.decision import ScalingDecision
from penstock.engine.jobmaster.autoscaling.settings import AutoscalerSettings

MINUTE_MS = 60_000
SETTINGS = AutoscalerSettings(stabilization_ms=STEP_MS, window_ms=2 * MINUTE_MS, scale_down_interval_ms=0)


def slow_map(
    parallelism: int = 1, records_per_s: float = 1_000.0, slots: int | None = None, noise: float = 0.0, **more: Any
) -> Pipeline:
    """A source, and a map that takes 5 ms for each record."""
    chosen = {name: more.pop(name) for name in list(more) if name in AutoscalerSettings.__dataclass_fields__}
    vertices = [
        Modelled("source", 0, 10, offered=lambda now_ms: records_per_s),
        Modelled("map", 1, 5_000, (0,), **more),
    ]
    return Pipeline(vertices, dataclasses.replace(SETTINGS, **chosen), {"map": parallelism}, noise, slots=slots)


def first(pipeline: Pipeline) -> ScalingDecision:
    return pipeline.run(10 * MINUTE_MS)[0]


def test_a_slow_operator_gets_the_subtasks_that_it_needs() -> None:
    """Its job would fall behind for ever; and who reads the log would not know why it was rescaled."""
    decision = first(slow_map(2))
    # 1,000 × 5 ms are 5 s of work a second; at a utilization of 0.7, with what waits, 8.
    assert decision.parallelism == {1: 8}
    assert str(decision).startswith("map 2 → 8 (the input is 1,000 records/s and ")
    assert "to catch up, 2 subtasks can process 400)" in str(decision)


def test_one_that_has_what_it_needs_is_left_alone() -> None:
    """A job would be interrupted for a subtask more or less."""
    assert not slow_map(6).run(60 * MINUTE_MS) and not slow_map(12).run(60 * MINUTE_MS)


def test_nothing_is_decided_before_tasks_are_stable_and_the_window_is_full() -> None:
    """The first seconds, when caches are cold and what waits is read, would decide about a job."""
    pipeline = slow_map()
    began_ms = pipeline.now_ms
    decision = first(pipeline)
    assert decision.at_ms - began_ms >= SETTINGS.stabilization_ms + SETTINGS.window_ms


@pytest.mark.parametrize(
    ("limits", "subtasks"),
    [
        ({"parallelism_max": 5}, 5),
        ({"most": 6}, 6),
        ({"scale_up_factor_max": 1.0}, 4),
        ({"utilization": 1.0}, 6),
        ({"catch_up_ms": 0}, 8),
    ],
)
def test_a_limit_is_kept_upwards(limits: dict[str, Any], subtasks: int) -> None:
    """An operator would take all the slots of a cluster, or have more subtasks than key groups."""
    assert first(slow_map(2, **limits)).parallelism == {1: subtasks}


@pytest.mark.parametrize(
    ("limits", "subtasks"),
    [
        ({}, 16),
        ({"scale_down_factor_max": 1.0}, 8),
        ({"parallelism_min": 20}, 20),
        ({"utilization_min": 0.0}, None),
        ({"fixed": "force_non_parallel() was called on it"}, None),
    ],
)
def test_a_limit_is_kept_downwards(limits: dict[str, Any], subtasks: int | None) -> None:
    """An operator would lose so many subtasks at once that it can't do what comes next."""
    decisions = slow_map(40, **limits).run(5 * MINUTE_MS)
    assert [decision.parallelism for decision in decisions[:1]] == ([{1: subtasks}] if subtasks else [])


def test_fewer_subtasks_only_if_fewer_were_enough_for_a_while() -> None:
    """A job would be made small in a pause of its load, and be too small right after it."""
    rate = 4_000.0
    pipeline = Pipeline(
        [Modelled("source", 0, 10, offered=lambda now_ms: rate), Modelled("map", 1, 5_000, (0,))],
        dataclasses.replace(SETTINGS, scale_down_interval_ms=60 * MINUTE_MS),
        {"map": 28},
    )
    pipeline.run(30 * MINUTE_MS)
    for next_rate, minutes in ((800.0, 50), (4_000.0, 10), (800.0, 50), (2_500.0, 5), (1_200.0, 4)):
        rate = next_rate
        assert not pipeline.run(minutes * MINUTE_MS), "the hour begins again when it needs what it has"
    rate = 1_000.0
    (decision,) = pipeline.run(63 * MINUTE_MS)
    assert decision.parallelism[1] > 12, "as many as were needed at the most meanwhile, and no less than 40 %"


def too_wide() -> Pipeline:
    """One that has needed fewer subtasks for half of the time after which it gets fewer."""
    pipeline = slow_map(28, 1_500.0, scale_down_interval_ms=60 * MINUTE_MS)
    assert not pipeline.run(30 * MINUTE_MS)
    return pipeline


def test_a_failure_does_not_begin_the_scale_down_interval_anew() -> None:
    """A job that fails once an hour would hold for ever what it had at its busiest."""
    pipeline = too_wide()
    pipeline.starts_again()
    assert len(pipeline.run(40 * MINUTE_MS)) == 1


def test_another_parallelism_begins_the_scale_down_interval_anew() -> None:
    """What was enough for other numbers of subtasks would decide, half an hour after the user has chosen these."""
    pipeline = too_wide()
    pipeline.starts_again({"map": 26})
    assert not pipeline.run(40 * MINUTE_MS)
    assert len(pipeline.run(30 * MINUTE_MS)) == 1


def test_what_can_not_be_scaled_is_said_and_left() -> None:
    """A job would be told to do what it can't, each minute; or its user would wait for a scaling that never comes."""
    pipeline = slow_map(2, fixed="force_non_parallel() was called on it")
    assert not pipeline.run(20 * MINUTE_MS)
    assert "'map' needs 8 subtasks, but its parallelism is fixed. 'map': force_non_parallel()" in pipeline.notes[0]


def test_no_more_than_there_are_slots() -> None:
    """Spark would admit half of a job, and wait for ever."""
    pipeline = slow_map(2, slots=6)
    decision = first(pipeline)
    assert decision.parallelism == {1: 5}
    assert decision.notes == ("6 more slots are needed, but Spark has 3 free slots: map 8",)
    assert not pipeline.run(30 * MINUTE_MS), "there is none left"
    assert "Spark has 0 free slots" in pipeline.notes[-1]


def test_who_lacks_the_most_gets_the_slots_first() -> None:
    """The operator that holds all others back would stay as it is, and the others idle."""
    vertices = [
        Modelled("source", 0, 10, offered=lambda now_ms: 1_000.0),
        Modelled("slow", 1, 9_000, (0,)),
        Modelled("less slow", 2, 1_500, (1,)),
    ]
    pipeline = Pipeline(vertices, SETTINGS, slots=11)
    first(pipeline)
    assert pipeline.widths() == {"source": 1, "slow": 8, "less slow": 2}


def test_operators_of_one_parallelism_change_together() -> None:
    """The plan would be refused, each time, and the job never be scaled."""

    def together(most: int) -> dict[str, int]:
        vertices = [
            Modelled("source", 0, 10, offered=lambda now_ms: 1_000.0),
            Modelled("slow", 1, 5_000, (0,), group=1),
            Modelled("fast", 2, 100, (1,), group=1, most=most),
        ]
        pipeline = Pipeline(vertices, SETTINGS)
        first(pipeline)
        return pipeline.widths()

    assert together(128) == {"source": 1, "slow": 8, "fast": 8}, "as many as the one needs that needs the most"
    assert together(5) == {"source": 1, "slow": 5, "fast": 5}, "and no more than each of them may have"


def test_slots_that_some_give_up_are_given_to_others() -> None:
    """A job would be too slow, though it holds all the slots that it needs."""
    vertices = [
        Modelled("source", 0, 10, offered=lambda now_ms: 1_000.0),
        Modelled("slow", 1, 5_000, (0,)),
        Modelled("fast", 2, 100, (1,)),
    ]
    wanted = {1: 8, 2: 4}
    topology = Pipeline(vertices, SETTINGS, {"fast": 10}).topology
    assert fit_to_free_slots(topology, wanted, 0) == {1: 7, 2: 4}
    assert fit_to_free_slots(topology, wanted, 1) == wanted
    assert fit_to_free_slots(topology, wanted, None) == wanted


@pytest.mark.parametrize(
    ("mode", "subtasks"),
    [(KeyGroupOrPartitionsAdjustMode.EVENLY_SPREAD, 8), (KeyGroupOrPartitionsAdjustMode.MAXIMIZE_UTILISATION, 6)],
)
def test_subtasks_of_keyed_operators_have_as_many_key_groups(
    mode: KeyGroupOrPartitionsAdjustMode, subtasks: int
) -> None:
    """One subtask with three key groups, where others have two, would hold all of them back."""
    assert first(slow_map(2, 850.0, keyed=True, most=16, adjust_mode=mode)).parallelism == {1: subtasks}


def test_fewer_subtasks_are_never_more() -> None:
    """An operator with too little to do would be given more subtasks, for the sake of even key groups."""
    assert first(slow_map(6, 660.0, keyed=True, most=16, utilization_min=0.6)).parallelism == {1: 4}


def neighbours(work_us: float, parallelism: int) -> Pipeline:
    """Two maps in the same slots."""
    vertices = [
        Modelled("source", 0, 1, offered=lambda now_ms: 1_000.0),
        Modelled("left", 1, work_us, (0,)),
        Modelled("right", 1, work_us, (0,)),
    ]
    return Pipeline(vertices, SETTINGS, {"left": parallelism, "right": parallelism})


def test_a_slot_that_is_full_is_too_little_for_both_of_its_tasks() -> None:
    """Each of them would seem to have time left, and the job would stay too slow."""
    pipeline = neighbours(600, 1)
    pipeline.run(20 * MINUTE_MS)
    assert max(pipeline.loads()) < 1.0


def test_a_slot_that_is_half_full_is_not_too_much_for_both_of_its_tasks() -> None:
    """Each of them would seem to have too little to do, and lose the slots that the other one needs."""
    assert not neighbours(1_000, 4).run(20 * MINUTE_MS)


def test_what_waits_may_keep_all_subtasks_busy() -> None:
    """A job that has been down for a day would be made larger for the hour in which it catches up."""
    pipeline = slow_map(6, utilization_max=0.8, catch_up_ms=0)
    pipeline.pending[0] = 5_000_000.0
    assert not pipeline.run(20 * MINUTE_MS)


def test_what_was_needed_before_the_interval_does_not_count() -> None:
    """One busy minute would keep a job large for as long as it is not made smaller for another reason."""
    delayed = DelayedScaleDown(60)
    assert [delayed.propose(0, *step) for step in ((10, 0), (4, 50), (5, 55), (4, 61))] == [None, None, None, 5]


def test_the_busiest_subtask_decides() -> None:
    """A frequent key would hold a job back, and its mean load would look fine."""
    assert slow_map(10, skew=1.2).run(20 * MINUTE_MS)
    assert not slow_map(10, skew=1.2, aggregator=MetricAggregator.AVG).run(20 * MINUTE_MS)


def test_subtasks_that_are_of_no_use_are_not_added_to_for_ever() -> None:
    """A job whose operator waits for one database would take all slots, and be no faster."""

    detects = slow_map(waits=True, detects_ineffective=True)
    assert len(detects.run(30 * MINUTE_MS)) == 1
    assert "'map' gets no more subtasks: the increase from 1 to 8 was expected" in detects.notes[-1]
    assert len(slow_map(waits=True).run(30 * MINUTE_MS)) > 1


def test_a_source_that_is_far_behind_keeps_its_job_large() -> None:
    """What waits would be processed by fewer subtasks, because there happens to be time left."""
    pipeline = slow_map(20)
    pipeline.pending[0] = 5_000_000.0
    assert not [one for one in pipeline.run(15 * MINUTE_MS) if one.parallelism.get(1, 99) < 20]


def test_no_input_is_no_reason_to_have_many_subtasks() -> None:
    """A job would hold a cluster all night for nothing."""
    pipeline = slow_map(40, 0.0, scale_down_factor_max=1.0)
    assert first(pipeline).parallelism == {1: 1}
    assert "no records arrived" in str(pipeline.decisions[0])


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("utilization.target: 0", "above 0 and at most 1"),
        ("utilization.target: 1.2", "above 0 and at most 1"),
        ("utilization.max: 0.6", "between job.autoscaler.utilization.min .* and"),
        ("scale-down.max-factor: 2", "must be from 0 to 1, got 2"),
        ("vertex.min-parallelism: 300", "must not be above job.autoscaler.vertex.max-parallelism"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(setting: str, why: str) -> None:
    """A job would run for a quarter of an hour until its first decision shows it."""
    configuration = Configuration()
    configuration.set_string(ENABLED.key, "true")
    key, _, value = setting.partition(": ")
    configuration.set_string(f"job.autoscaler.{key}", value)
    with pytest.raises(ConfigurationError, match=why):
        AutoscalerSettings.of(configuration)


def test_defaults_are_those_of_the_options() -> None:
    """What the reference says would not be what happens."""
    configuration = Configuration()
    assert AutoscalerSettings.of(configuration) is None
    configuration.set_string(ENABLED.key, "true")
    assert AutoscalerSettings.of(configuration) == AutoscalerSettings()
    configuration.set_string("job.autoscaler.target.utilization", "0.5")
    assert configuration.get(UTILIZATION_TARGET) == 0.5
