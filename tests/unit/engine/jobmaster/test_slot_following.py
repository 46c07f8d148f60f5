"""Jobs that have as many subtasks as there are slots: when they grow, when they shrink, and when they wait."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.engine.jobmaster.played_job import SETTINGS, Job, deployed, plan, sent
from tests.unit.engine.jobmaster.test_rescaling import all_close, all_register

from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError, NotEnoughSlotsError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.engine.jobmaster.effects import CountSlots, JobEffect, Reply
from penstock.engine.jobmaster.events import CancelRequested, RescaleRequested, SlotsCounted
from penstock.engine.jobmaster.notices import Rescaling
from penstock.engine.jobmaster.settings import JobSettings, SlotFollowingSettings
from penstock.engine.plan.rescaling import fit_to_slots, max_subtasks
from penstock.engine.runtime.task.events import Acknowledge, Opaque, TriggerCheckpoint

REACTIVE = SlotFollowingSettings(reactive=True, stabilization_ms=5_000, cooldown_ms=20_000, growth_stabilization_ms=0)
ADAPTIVE = dataclasses.replace(REACTIVE, reactive=False)


class Follower(Job):
    """A job of one reader and some reducers in each region, whose Spark answers how many slots there are."""

    def __init__(self, settings: SlotFollowingSettings = REACTIVE, parallelism: int = 1, regions: int = 1) -> None:
        self.answered = 0
        super().__init__(dataclasses.replace(SETTINGS, slot_following=settings), graph=plan(parallelism, regions))

    def has(self, slots: int, ms: int = 1_000) -> list[JobEffect]:
        """Time passes, and there are so many slots."""
        effects = self.waits(ms)
        while sum(isinstance(effect, CountSlots) for effect in self.effects) > self.answered:
            self.answered += 1
            effects += self.handle(SlotsCounted(slots))
        return effects


def following(settings: SlotFollowingSettings = REACTIVE, parallelism: int = 1, regions: int = 1) -> Follower:
    return Follower(settings, parallelism, regions)


def there_are(job: Follower, slots: int) -> list[JobEffect]:
    return job.has(slots)


def widths(job: Follower) -> list[int]:
    return [vertex.parallelism for vertex in job.master.graph.vertices]


def acknowledge(job: Follower) -> list[JobEffect]:
    """All tasks acknowledge the checkpoint that is under way."""
    (number,) = job.master.coordinator.under_way
    effects: list[JobEffect] = []
    for region in job.master.regions:
        for slot, tasks in region.attempt.slots.items():
            for vertex, subtask in tasks:
                report = Acknowledge(vertex, subtask, number, commits=Opaque([]))
                effects += job.report(slot.level, report, index=slot.index)
    return effects


def grown(slots: int = 4) -> Follower:
    """One that has taken all slots."""
    job = following().runs()
    assert TriggerCheckpoint in sent(there_are(job, slots))
    acknowledge(job)
    all_close(job)
    all_register(job)
    assert job.master.status is JobStatus.RUNNING and widths(job) == [1, slots - 1]
    return job


def loses(job: Follower, slots: int, seconds: int) -> None:
    """An executor is gone, and none takes its place: only so many slots are left."""
    job.fails(TaskLostError("an executor is gone"))
    all_close(job)
    for _ in range(seconds):
        if deployed(there_are(job, slots)) and job.master.graph.slots > slots:
            job.fails(NotEnoughSlotsError("too few"))
            all_close(job)


def test_a_job_takes_the_slots_that_come() -> None:
    """Machines that were added would stand idle until the job is started again."""
    job = grown()
    (notice,) = [effect for effect in job.effects if isinstance(effect, Rescaling)]
    assert [vertex.parallelism for vertex in notice.after.vertices] == [1, 3]
    assert job.master.restarts == 0


def test_it_grows_no_sooner_than_its_cooldown_is_over() -> None:
    """A cluster whose machines come one by one would have a job that does nothing but start."""
    job = grown()
    for _ in range(19):
        assert TriggerCheckpoint not in sent(there_are(job, 6))
    assert TriggerCheckpoint in sent(there_are(job, 6))


def test_machines_that_come_one_by_one_are_taken_together() -> None:
    """A job would stop, and do again what it has done, for each of ten machines that are started in one minute."""
    job = following(dataclasses.replace(REACTIVE, cooldown_ms=5_000, growth_stabilization_ms=10_000)).runs()
    there_are(job, 2)
    job.fails(TaskLostError("a worker is gone"))
    all_close(job)
    job.waits(1_000)
    all_register(job)
    for slots in range(3, 13):
        assert TriggerCheckpoint not in sent(there_are(job, slots)), "from the first of them, not from the last"
    assert TriggerCheckpoint in sent(there_are(job, 13))


def test_all_slots_that_a_job_can_use_are_taken_at_once() -> None:
    """A job that has lost a machine would have waited for it, and then for a minute more."""
    job = following(dataclasses.replace(ADAPTIVE, growth_stabilization_ms=60_000), parallelism=4)
    loses(job, 3, seconds=8)
    all_register(job)
    assert widths(job) == [1, 2]
    for _ in range(19):
        assert TriggerCheckpoint not in sent(there_are(job, 5))
    assert TriggerCheckpoint in sent(there_are(job, 5))


@pytest.mark.parametrize(("wait_ms", "ends"), [(60_000, True), (None, False)])
def test_how_long_it_waits_for_the_first_slots(wait_ms: int | None, ends: bool) -> None:
    """A job whose cluster is shut down for the night would be gone in the morning; or one without any never end."""
    job = following(dataclasses.replace(REACTIVE, wait_ms=wait_ms))
    for _ in range(200):
        if job.finish is None:
            if deployed(job.effects):
                job.fails(NotEnoughSlotsError("none at all"))
                all_close(job)
            there_are(job, 0)
    assert (job.finish is not None) == ends


def test_too_small_an_increase_is_not_worth_it() -> None:
    """A job of a hundred subtasks would stop for one more."""
    job = following(dataclasses.replace(REACTIVE, increase_min=3)).runs()
    assert TriggerCheckpoint not in sent(there_are(job, 4))
    assert TriggerCheckpoint in sent(there_are(job, 5))


def test_with_fewer_slots_it_goes_on_with_fewer_subtasks() -> None:
    """A job would stand still because one machine of ten is gone."""
    job = grown(6)
    loses(job, 3, seconds=8)
    assert widths(job) == [1, 2]
    all_register(job)
    assert job.master.status is JobStatus.RUNNING and job.attempt.restored_id == 1


def test_an_executor_that_is_replaced_in_time_costs_no_subtasks() -> None:
    """A job would be made small, and large again a minute later, each time that a process ends."""
    job = grown(6)
    loses(job, 3, seconds=3)
    assert widths(job) == [1, 5]
    there_are(job, 6)
    all_register(job)
    assert job.master.status is JobStatus.RUNNING and widths(job) == [1, 5]


def test_slots_that_come_and_go_begin_the_wait_again() -> None:
    """A job would be started with what is there by chance, and a second later with what is there then."""
    job = grown(8)
    job.fails(TaskLostError("an executor is gone"))
    all_close(job)
    for slots in (5, 5, 5, 4, 4, 4, 3, 3, 3):
        if deployed(there_are(job, slots)):
            job.fails(NotEnoughSlotsError("too few"))
            all_close(job)
    assert widths(job) == [1, 7]


def test_without_enough_for_one_subtask_of_each_it_waits() -> None:
    """A part of the job would start, and hold slots for nothing."""
    job = grown()
    loses(job, 1, seconds=20)
    assert widths(job) == [1, 3] and job.master.status in (JobStatus.RESTARTING, JobStatus.CREATED)


def test_a_job_that_is_submitted_before_all_slots_are_there_begins_with_fewer() -> None:
    """It would wait for five minutes for machines that nobody has promised."""
    job = following(ADAPTIVE, parallelism=4)
    job.fails(NotEnoughSlotsError("too few"))
    for _ in range(8):
        if deployed(there_are(job, 3)) and job.master.graph.slots > 3:
            job.fails(NotEnoughSlotsError("too few"))
    assert widths(job) == [1, 2]
    all_register(job)
    assert job.master.status is JobStatus.RUNNING
    for _ in range(21):
        there_are(job, 50)
    acknowledge(job)
    all_close(job)
    assert widths(job) == [1, 4], "what the program asks for, and no more"


def test_regions_that_run_change_with_those_that_are_started_again() -> None:
    """Two regions would hold more slots than there are, and the one that was lost would never start."""
    job = following(ADAPTIVE, parallelism=3, regions=2)
    all_register(job)
    job.fails(TaskLostError("an executor is gone"), region=1)
    all_close(job, 1)
    for _ in range(8):
        if deployed(there_are(job, 6)) and job.master.graph.slots > 6:
            job.fails(NotEnoughSlotsError("too few"), region=1)
            all_close(job, 1)
    assert job.master.regions[0].status is JobStatus.CANCELLING
    all_close(job, 0)
    job.waits(100)
    assert widths(job) == [1, 1, 2, 2]
    all_register(job)
    assert job.master.status is JobStatus.RUNNING


def test_a_growth_that_fails_for_lack_of_slots_ends_with_those_that_there_are() -> None:
    """The job would go back to a parallelism for which there are no slots either, and stand still."""
    job = grown(6)
    for _ in range(21):
        there_are(job, 8)
    acknowledge(job)
    all_close(job)
    assert widths(job) == [1, 7]
    loses(job, 3, seconds=12)
    assert widths(job) == [1, 2]
    all_register(job)
    assert job.master.status is JobStatus.RUNNING


def test_a_job_that_is_cancelled_while_it_waits_is_cancelled() -> None:
    """It would start again, though its user has ended it."""
    job = grown(6)
    loses(job, 3, seconds=2)
    job.handle(CancelRequested())
    all_close(job)
    assert job.finish is not None and job.finish.status is JobStatus.CANCELED


def test_nobody_chooses_the_parallelism_of_a_reactive_job() -> None:
    """Two would decide about one number, and the job be rescaled for a parallelism that it has for half a minute."""
    job = grown()
    (reply,) = job.handle(RescaleRequested(7, {1: 2}, 10))
    assert isinstance(reply, Reply) and "the job is reactive" in str(reply.error)


@pytest.mark.parametrize("subtasks", [2, 8])
def test_a_parallelism_that_the_user_has_chosen_is_the_highest_from_then_on(subtasks: int) -> None:
    """`penstock scale` would be undone by the next slots that come, or the next that go."""
    job = following(dataclasses.replace(ADAPTIVE, cooldown_ms=5_000), parallelism=4)
    all_register(job)
    there_are(job, 20)
    job.handle(RescaleRequested(7, {1: subtasks}, 10))
    acknowledge(job)
    all_close(job)
    all_register(job)
    assert widths(job) == [1, subtasks]
    for _ in range(8):
        assert TriggerCheckpoint not in sent(there_are(job, 20))
    loses(job, 2, seconds=8)
    all_register(job)
    assert widths(job) == [1, 1]
    for _ in range(6):
        there_are(job, 20)
    acknowledge(job)
    all_close(job)
    assert widths(job) == [1, subtasks]


def test_a_job_that_follows_no_slots_does_not_ask() -> None:
    """Spark would be asked each second for nothing."""
    job = Job().runs()
    assert not any(isinstance(effect, CountSlots) for _ in range(20) for effect in job.waits(1_000))


@pytest.mark.parametrize("slots", [1, 2, 3, 5, 9, 40])
def test_a_plan_takes_no_more_slots_than_there_are(slots: int) -> None:
    """Spark would admit it by its capacity, and it would wait for ever."""
    graph = plan(regions=2)
    best = fit_to_slots(graph, max_subtasks(graph, reactive=True), slots)
    assert best.slots <= max(slots, 4) and best.slots >= min(slots - 1, 4)
    assert [vertex.parallelism for vertex in best.vertices if vertex.is_source] == [1, 1], "one subtask reads it"


def test_a_plan_has_no_more_subtasks_than_key_groups() -> None:
    """A subtask without keys would hold a slot for nothing, and the plan be refused."""
    graph = plan()
    assert fit_to_slots(graph, max_subtasks(graph, reactive=True), 10_000).widths == (1, 128)


@pytest.mark.parametrize("setting", ["scheduler-mode: reactive", "jobmanager.scheduler: Adaptive"])
def test_settings(setting: str) -> None:
    """A job would not follow slots, or begin from its start each time that one is lost."""
    configuration = Configuration()
    key, _, value = setting.partition(": ")
    configuration.set_string(key, value)
    with pytest.raises(ConfigurationError, match=rf"{key} needs execution\.checkpointing\.interval"):
        JobSettings.of(configuration)
    configuration.set_string("execution.checkpointing.interval", "1 s")
    configuration.set_string("jobmanager.adaptive-scheduler.resource-stabilization-timeout", "3 s")
    reactive = value == "reactive"
    expected = SlotFollowingSettings(reactive, 3_000, 30_000, 1, 60_000, None if reactive else 300_000)
    assert JobSettings.of(configuration).slot_following == expected
    assert JobSettings.of(configuration).slots_wait_ms == expected.wait_ms
    for wait, wait_ms in (("-1", None), ("-1 ms", None), ("7 s", 7_000)):
        configuration.set_string("jobmanager.adaptive-scheduler.submission.resource-wait-timeout", wait)
        assert JobSettings.of(configuration).slots_wait_ms == wait_ms
    configuration.set_string("job.autoscaler.enabled", "true")
    with pytest.raises(ConfigurationError, match="can't both choose the parallelism"):
        JobSettings.of(configuration)
    with pytest.raises(ConfigurationError, match="-1 ms for one without an end"):
        configuration.set_string("jobmanager.adaptive-scheduler.submission.resource-wait-timeout", "-2 s")
        JobSettings.of(configuration)
