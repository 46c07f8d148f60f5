"""A job of two regions: one fails and is restarted, the other runs on, unless the failure concerns the whole job."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.engine.jobmaster.played_job import SETTINGS, Job, delivered, deployed, plan, savepoint_requested, sent

from penstock.common.configuration import Configuration
from penstock.common.configuration.choices import FailoverStrategy
from penstock.common.errors import (
    ConfigurationError,
    DamagedCheckpointError,
    FencedError,
    JobError,
    ProgramError,
    TaskLostError,
)
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.effects import AbortCommittables, Commit, DeleteFiles, RetainOnly
from penstock.engine.jobmaster.effects import Finish, JobEffect, Reply, RestartResults, SendToSlot, StopAttempt
from penstock.engine.jobmaster.ending import StopFailedError
from penstock.engine.jobmaster.events import (
    AttemptStopped,
    CancelRequested,
    CommitEnded,
    DeliveryFailed,
    HostFailed,
    QueryFailed,
    StorageEnded,
)
from penstock.engine.jobmaster.notices import OtherRegionFailed, RestartScheduled
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.rpc.messages import Register, SlotFailed
from penstock.engine.runtime.ids import AttemptId
from penstock.engine.runtime.task.events import (
    AbortCheckpoint,
    Acknowledge,
    Cancel,
    Close,
    DataEnded,
    Drain,
    Finished,
    Opaque,
    Result,
    TriggerCheckpoint,
)

GRAPH = plan(regions=2)
LOST = TaskLostError("a worker")


def job(settings: JobSettings = SETTINGS, **more: object) -> Job:
    return Job(settings, graph=GRAPH, **more)  # type: ignore[arg-type]


def reached(effects: list[JobEffect], event: type) -> set[int]:
    """The regions whose tasks are sent an event."""
    levels = {effect.slot.level for effect in effects if isinstance(effect, SendToSlot)
              and isinstance(effect.message.event, event)}  # fmt: skip
    return {index for index, of_region in enumerate(GRAPH.regions) if levels.intersection(of_region)}


def committed(effects: list[JobEffect]) -> list[tuple[int, list[str]]]:
    return [(effect.sink, effect.committables) for effect in effects if isinstance(effect, Commit)]


def numbers(played: Job) -> list[int]:
    return [region.attempt.number for region in played.master.regions]


# One region.


def test_failures_that_come_together_are_all_told() -> None:
    """Who mends the one that is told meets the other one next. Source: Flink's REST, concurrentExceptions."""
    for second, told in (("second", ["second"]), ("first", [])):
        played = job().runs()
        levels = [played.graph.vertices_of(region)[0].level for region in (0, 1)]
        played.report(levels[0], SlotFailed("JobError", "first"))
        played.report(levels[1], SlotFailed("JobError", second))
        played.waits(60_000)
        (scheduled,) = (effect for effect in played.effects if isinstance(effect, RestartScheduled))
        assert str(scheduled.error) == "first"
        assert [str(effect.error) for effect in played.effects if isinstance(effect, OtherRegionFailed)] == told


def test_failures_that_end_the_job_together_are_all_in_its_history() -> None:
    """The one that is not told is met after the job has been started again."""
    played = job(attempts=0).runs()
    levels = [played.graph.vertices_of(region)[0].level for region in (0, 1)]
    for level, text in zip(levels, ("first", "second"), strict=True):
        played.report(level, SlotFailed("JobError", text))
    played.waits(60_000)
    assert played.finish is not None and played.finish.status is JobStatus.FAILED
    assert [failure.text for failure in played.recorder.failures.newest] == ["second", "first"], "oldest first"


def test_a_region_that_fails_is_restarted_alone() -> None:
    """One broken pipeline would hold up all others of its job, and set them back to the latest checkpoint."""
    played = job().runs()
    effects = played.fails(LOST, region=1)
    assert reached(effects, Cancel) == {1}
    assert [effect for effect in effects if isinstance(effect, StopAttempt)] == [StopAttempt(AttemptId(1, 0))]
    assert played.master.status is JobStatus.RESTARTING
    assert deployed(played.waits(100)) == [AttemptId(1, 1)]
    played.runs()
    assert numbers(played) == [0, 1]
    played.takes_checkpoint()
    assert played.completed == [1]


def test_a_slot_that_fails_cancels_the_tasks_of_its_region() -> None:
    """Its neighbours would wait for it for ever, or those of another region would be closed with them."""
    played = job().runs()
    first, second = GRAPH.regions[1]
    effects = played.report(first, SlotFailed("UserFunctionError", "it raised"))
    slots = {effect.slot for effect in effects if isinstance(effect, SendToSlot)}
    assert slots == {(second, 0)}, "nothing that has failed can be closed"
    assert played.master.status is JobStatus.FAILING
    played.report(second, Finished(GRAPH.vertices_of(1)[-1].id, 0))
    played.restarts().runs()
    assert numbers(played) == [0, 1]


def test_a_region_may_fail_before_another_has_started() -> None:
    """A job whose first region comes up at the second try would take no checkpoint."""
    played = job()
    played.fails(LOST, region=1)
    assert deployed(played.waits(100)) == [AttemptId(1, 1)]
    played.runs()
    played.takes_checkpoint()
    assert played.completed == [1] and numbers(played) == [0, 1]


def test_no_checkpoint_begins_while_a_region_is_down() -> None:
    """It would wait for tasks that do not exist, and expire."""
    interval = dataclasses.replace(SETTINGS.checkpoints, interval_ms=50)
    played = job(dataclasses.replace(SETTINGS, checkpoints=interval)).runs()
    assert TriggerCheckpoint not in sent(played.fails(LOST))
    assert TriggerCheckpoint not in sent(played.waits(60))
    played.waits(40)
    assert TriggerCheckpoint not in sent(played.waits(60)), "its slots have not registered"
    played.runs()
    assert reached(played.waits(50), TriggerCheckpoint) == {0, 1}


def test_a_checkpoint_that_one_region_can_not_take_part_in_is_aborted_at_the_others() -> None:
    """Their channels would stay set aside, and a source that has stopped for a savepoint would never go on."""
    played = job().runs()
    played.handle(savepoint_requested(5, "/sp", stop=True))
    effects = played.fails(LOST, region=1)
    assert reached(effects, AbortCheckpoint) == {0}
    (answer,) = [effect for effect in effects if isinstance(effect, Reply)]
    assert answer.error is not None
    played.restarts().runs()
    played.takes_checkpoint()
    assert played.completed == [2], "the job has not stopped"


def test_what_the_sinks_of_other_regions_prepared_comes_with_the_next_checkpoint() -> None:
    """Their output would be lost, and that of the failed region published though it is written again."""
    played = job().runs()
    number = played.begins_checkpoint()
    played.region_acknowledges(0, number, "live", "gone")
    vertex, commits = GRAPH.vertices_of(1)[-1], Opaque([(played.sinks[1], ["gone"])])
    played.report(vertex.level, Acknowledge(vertex.id, 0, number, commits=commits))
    effects = played.fails(LOST, region=1)
    aborted = [(effect.sink, effect.committables) for effect in effects if isinstance(effect, AbortCommittables)]
    assert aborted == [(played.sinks[1], ["gone"])]
    played.restarts().runs()
    effects = played.takes_checkpoint("later", "again")
    assert sorted(committed(effects)) == sorted(
        [(played.sinks[0], ["live"]), (played.sinks[0], ["later"]), (played.sinks[1], ["again"])]
    )


def test_a_late_acknowledgement_of_a_live_region_counts_while_another_is_down() -> None:
    """A task that was slow to write its state would lose the rows of a whole interval."""
    played = job().runs()
    number = played.begins_checkpoint()
    played.fails(LOST, region=1)
    effects = played.region_acknowledges(0, number, "late")
    effects += played.region_acknowledges(1, number, "", "of tasks that are gone")
    assert not any(isinstance(effect, AbortCommittables | Commit) for effect in effects)
    played.restarts().runs()
    assert committed(played.takes_checkpoint()) == [(played.sinks[0], ["late"])]


def test_only_the_commits_of_the_restarted_region_are_repeated() -> None:
    """Commits of the others would be made twice side by side, or their failures be ignored."""
    played = job().runs()
    played.commits = False
    played.takes_checkpoint("of 0", "of 1")
    first, second = played.open_commits
    played.fails(LOST, region=1)
    played.restarts().runs()
    again = [effect for effect in played.open_commits if effect.again]
    assert [(effect.sink, effect.committables) for effect in again] == [(played.sinks[1], ["of 1"])]
    played.handle(CommitEnded(second.operation, OSError("late, and repeated since")))
    assert played.master.status is JobStatus.RUNNING
    played.handle(CommitEnded(first.operation, OSError("the store is away")))
    assert "the store is away" in str(played.attempt.error) and numbers(played) == [0, 1]


def test_results_belong_to_the_attempt_of_their_region() -> None:
    """Collected records of a region that runs on would be lost with another one, or come twice."""
    played = job().runs()
    vertex = GRAPH.vertices_of(0)[-1]
    played.report(vertex.level, Result(vertex.id, 0, played.sinks[0], Opaque([1]), 0))
    lost = GRAPH.vertices_of(1)[-1]
    played.report(lost.level, Result(lost.id, 0, played.sinks[1], Opaque([2]), 0))
    played.fails(LOST, region=1)
    effects = played.waits(100)
    restarts = [effect for effect in effects if isinstance(effect, RestartResults)]
    assert restarts == [RestartResults(AttemptId(1, 1), frozenset({played.sinks[1]}))]
    played.runs()
    assert delivered(played.takes_checkpoint()) == [1], "2 comes again from the new attempt"


def test_what_a_lane_reports_late_fails_no_other_attempt() -> None:
    """A region would be restarted for the failure of one that was restarted long ago."""
    played = job().runs()
    played.fails(LOST, region=1)
    played.restarts().runs()
    played.handle(DeliveryFailed(AttemptId(1, 0), OSError("broken pipe")))
    assert played.master.status is JobStatus.RUNNING
    played.handle(DeliveryFailed(AttemptId(0, 0), OSError("broken pipe")))
    assert [region.is_up for region in played.master.regions] == [False, True]


def test_files_are_swept_only_when_no_task_runs() -> None:
    """Files that a live task has just written for its next checkpoint would be deleted."""
    played = job().runs()
    played.takes_checkpoint()
    assert not any(isinstance(effect, RetainOnly) for effect in played.fails(LOST, region=1))
    assert any(isinstance(effect, RetainOnly) for effect in played.fails(LOST, region=0))


def test_a_region_waits_for_a_manifest_that_is_on_its_way() -> None:
    """It would be restored from before a checkpoint that completes then: its output in between would come twice."""
    played = job().runs()
    played.stores = False
    number = played.begins_checkpoint()
    played.acknowledges(number, "a", "b")
    played.fails(LOST, region=1)
    assert not deployed(played.waits(10_000))
    effects = []
    while played.operations:
        effects += played.handle(StorageEnded(played.operations.pop(0).operation))
    assert played.completed == [number] and len(committed(effects)) == 2
    assert played.master.status is JobStatus.RESTARTING
    assert deployed(played.waits(100)) == [AttemptId(1, 1)]


def test_a_region_does_not_wait_for_files_that_are_being_deleted() -> None:
    """A job would stand still for minutes, for files of which none is its next attempt's."""
    played = job().runs()
    played.stores = False
    store = played.master.storage
    store.request(DeleteFiles(store.next_number(), ["shared/1-0-0-0-keyed"]))
    played.fails(LOST, region=1)
    assert [type(operation) for operation in played.operations] == [DeleteFiles] and not store.is_idle
    assert deployed(played.waits(100)) == [AttemptId(1, 1)]


# Several regions.


def test_regions_that_fail_together_are_one_failure() -> None:
    """A worker that runs tasks of several regions would use up a restart for each of them."""
    played = job(attempts=1).runs()
    played.master.handle(QueryFailed(AttemptId(0, 0), LOST), played.now_ms)
    played.master.handle(QueryFailed(AttemptId(1, 0), LOST), played.now_ms)
    played.handle(AttemptStopped(AttemptId(0, 0)))
    assert played.master.status is JobStatus.FAILING, "the other one is not gone"
    played.handle(AttemptStopped(AttemptId(1, 0)))
    assert played.master.status is JobStatus.RESTARTING
    assert deployed(played.waits(100)) == [AttemptId(0, 1), AttemptId(1, 1)]


def test_a_region_that_fails_while_another_waits_joins_it() -> None:
    """The second would be started while the first is, half of each, on slots that suffice for one."""
    played = job(attempts=1).runs()
    played.fails(LOST, region=0)
    played.waits(50)
    played.fails(LOST, region=1)
    assert not deployed(played.waits(49))
    assert deployed(played.waits(1)) == [AttemptId(0, 1), AttemptId(1, 1)]


def test_a_restart_waits_for_a_region_that_is_closing() -> None:
    """Its tasks would be ended when the others run already, and their first checkpoint with them."""
    played = job().runs()
    played.fails(LOST, region=0)
    played.master.handle(QueryFailed(AttemptId(1, 0), LOST), played.now_ms)
    assert not deployed(played.waits(200))
    assert played.master.wake_at_ms() is None, "its end is an event"
    assert deployed(played.handle(AttemptStopped(AttemptId(1, 0)))) == [AttemptId(0, 1), AttemptId(1, 1)]


def test_a_region_that_fails_after_a_restart_is_a_further_failure() -> None:
    """A job whose regions fail by turns would be restarted for ever."""
    played = job(attempts=1).runs()
    played.fails(LOST, region=0)
    played.restarts().runs()
    played.fails(JobError("the last one"), region=1)
    assert played.finish is None, "the other region is closing"
    played.of_region(0, lambda v: Finished(v, 0))
    assert played.finish is not None and played.finish.status is JobStatus.FAILED
    assert str(played.finish.error) == "the last one"


def test_an_error_of_the_program_ends_the_job_though_a_region_waits() -> None:
    """A wrong program would be deployed for ever."""
    played = job().runs()
    played.fails(LOST, region=0)
    played.fails(ProgramError("two operators with one uid"), region=1)
    assert played.finish is not None and isinstance(played.finish.error, ProgramError)


def test_what_ends_the_job_is_named_whichever_region_fails_first() -> None:
    """A run that was taken over while its machine slept would say that a worker was silent, and be started again."""
    played = job().runs()
    played.master.handle(QueryFailed(AttemptId(1, 0), LOST), played.now_ms)
    played.master.handle(HostFailed(FencedError("another run has taken the job over")), played.now_ms)
    for region in (1, 0):
        played.of_region(region, lambda v: Finished(v, 0))
        played.handle(AttemptStopped(AttemptId(region, 0)))
    assert played.finish is not None and isinstance(played.finish.error, FencedError)


def test_cancel_while_one_region_waits_and_the_other_runs() -> None:
    """The one that waits would be deployed when its time has come, or the job would never end."""
    played = job().runs()
    played.fails(LOST, region=1)
    assert reached(played.handle(CancelRequested()), Cancel) == {0}
    assert played.master.status is JobStatus.CANCELLING and not deployed(played.waits(100))
    played.of_region(0, lambda v: Finished(v, 0))
    assert played.finish is not None and played.finish.status is JobStatus.CANCELED


# The whole job.


@pytest.mark.parametrize("case", ["full", "host", "draining", "data ended", "closing"])
def test_failures_that_concern_all_regions(case: str) -> None:
    """A region would go on though its sources were drained or closed, or though its user wants the whole job back."""
    settings = dataclasses.replace(SETTINGS, failover_strategy=FailoverStrategy.FULL) if case == "full" else SETTINGS
    played = job(settings).runs()
    played.takes_checkpoint()
    if case == "draining":
        assert reached(played.handle(savepoint_requested(5, "/sp", stop=True, drain=True)), Drain) == {0, 1}
    elif case in ("data ended", "closing"):
        played.of_tasks(lambda v: DataEnded(v, 0))
    if case == "closing":
        assert reached(played.acknowledges(2), Close) == {0, 1}
        played.of_region(0, lambda v: Finished(v, 0))
    effects = played.handle(HostFailed(JobError("ours"))) if case == "host" else played.fails(LOST, region=1)
    if case != "closing":
        assert 0 in reached(effects, Cancel), "the other region fails with it"
    effects = [*played.waits(SETTINGS.failure_grace_ms), *played.waits(100)]
    assert deployed(effects) == [AttemptId(0, 1), AttemptId(1, 1)]
    played.runs()
    assert reached(played.of_tasks(lambda v: DataEnded(v, 0)), TriggerCheckpoint) == {0, 1}, "it comes to its own end"


def test_the_end_comes_when_the_data_of_all_regions_has_ended() -> None:
    """A short pipeline would end the job, and the others in the middle of their work."""
    played = job().runs()
    assert not sent(played.of_region(0, lambda v: DataEnded(v, 0)))
    played.takes_checkpoint()
    assert played.completed == [1], "checkpoints go on"
    played.fails(LOST, region=1)
    played.restarts().runs()
    assert numbers(played) == [0, 1], "one may fail until then, and goes back alone"
    assert reached(played.of_region(1, lambda v: DataEnded(v, 0)), TriggerCheckpoint) == {0, 1}
    assert reached(played.acknowledges(2), Close) == {0, 1}
    played.of_tasks(lambda v: Finished(v, 0))
    assert played.finish == Finish(JobStatus.FINISHED, None)


def test_all_regions_go_back_behind_a_damaged_checkpoint() -> None:
    """The next checkpoint would hold one region's past with another one's future."""
    played = job().runs()
    for _ in range(3):
        played.takes_checkpoint()
    played.fails(LOST, region=1)
    played.restarts()
    effects = played.fails(DamagedCheckpointError("a file is missing"), region=1)
    assert reached(effects, Cancel) == {0}
    played.of_region(0, lambda v: Finished(v, 0))
    assert played.completed == [1, 2]
    assert deployed(played.waits(100)) == [AttemptId(0, 1), AttemptId(1, 2)]


def test_without_an_older_checkpoint_a_damaged_one_concerns_its_region_only() -> None:
    """A healthy pipeline would be set back though nothing is won by it."""
    played = job().runs()
    played.takes_checkpoint()
    played.fails(LOST, region=1)
    played.restarts()
    assert not reached(played.fails(DamagedCheckpointError("a file is missing"), region=1), Cancel)
    assert deployed(played.waits(100)) == [AttemptId(1, 2)] and played.completed == [1]


def test_a_region_that_fails_while_the_job_stops_with_a_savepoint() -> None:
    """It would be restored from before the savepoint, and write everything since a second time."""
    played = job().runs()
    played.handle(savepoint_requested(5, "/sp", stop=True))
    played.stores = False
    played.acknowledges(1, "a", "b")
    played.fails(LOST, region=1)
    assert played.master.regions[0].is_up, "whether the savepoint is stored is not known yet"
    played.stores = True
    while played.operations:
        played.store()
    played.of_region(0, lambda v: Finished(v, 0))
    (reply,) = [effect for effect in played.effects if isinstance(effect, Reply)]
    assert isinstance(reply.error, StopFailedError) and "savepoint /sp, but then tasks failed" in str(reply.error)
    assert played.finish == Finish(JobStatus.FINISHED, None)
    assert committed(played.effects) == [(played.sinks[0], ["a"]), (played.sinks[1], ["b"])]


def test_an_error_of_the_other_region_is_not_taken_for_damage() -> None:
    """A region that was closed because of another one's error would cost the job its newest checkpoint."""
    settings = dataclasses.replace(SETTINGS, failover_strategy=FailoverStrategy.FULL)
    played = job(settings).runs()
    for _ in range(2):
        played.takes_checkpoint()
    played.fails(LOST, region=1)
    played.of_region(0, lambda v: Finished(v, 0))
    played.restarts()
    for vertex in GRAPH.vertices_of(1):
        played.report(vertex.level, Register())
    played.fails(DamagedCheckpointError("of a running attempt"), region=1)
    played.fails(LOST, region=0)
    assert played.completed == [1, 2] and played.master.status is JobStatus.RESTARTING


def test_the_strategy_is_named_as_in_flink() -> None:
    """A setting would have no effect, or a spelling mistake go unnoticed."""
    key = "jobmanager.execution.failover-strategy"
    assert JobSettings.of(Configuration()).failover_strategy is FailoverStrategy.REGION
    assert JobSettings.of(Configuration.from_dict({key: "full"})).failover_strategy is FailoverStrategy.FULL
    with pytest.raises((ConfigurationError, ValueError)):
        JobSettings.of(Configuration.from_dict({key: "half"}))
