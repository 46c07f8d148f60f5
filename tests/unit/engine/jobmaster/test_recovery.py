"""The job master between two attempts: what is restored, committed again, dropped, and what never mixes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.unit.engine.jobmaster.played_job import SETTINGS, Job, delivered, plan

from penstock.common.errors import (
    CheckpointError,
    DamagedCheckpointError,
    FencedError,
    JobError,
    SourceError,
    TaskLostError,
)
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.effects import (
    AbortCommittables,
    Commit,
    StorageEffect,
    StoreManifest,
)
from penstock.engine.jobmaster.checkpoint_vertices import vertex_of_sinks
from penstock.engine.jobmaster.effects import (
    Deploy,
    RestartResults,
    StopAttempt,
)
from penstock.engine.jobmaster.events import (
    AttemptStopped,
    CancelRequested,
    CommitEnded,
    DeliveryFailed,
    HostFailed,
    QueryFailed,
    StorageEnded,
    Tick,
)
from penstock.engine.rpc.messages import Register
from penstock.engine.runtime.ids import AttemptId
from penstock.engine.runtime.task.events import (
    Acknowledge,
    Finished,
    Opaque,
    RequestSplit,
    Result,
)

# What must not be mixed up between attempts.


def test_a_new_attempt_waits_until_the_tasks_of_the_old_one_are_gone() -> None:
    """Two attempts would write to the same sinks at once."""
    job = Job().runs()
    effects = job.master.handle(QueryFailed(AttemptId(0, 0), TaskLostError("a worker")), job.now_ms)
    assert effects[-1] == StopAttempt(AttemptId(0, 0))
    assert not any(isinstance(effect, Deploy) for effect in job.waits(60_000))
    job.handle(AttemptStopped(AttemptId(0, 0)))
    job.restarts()


def test_a_worker_that_dies_before_its_operators_are_open_is_told_of_with_their_names() -> None:
    """The user would read "killed, or out of memory" where a class of theirs could not be unpickled."""
    job = Job()
    job.report(0, Register())
    job.fails(TaskLostError("a worker went away"))
    error = str(job.attempt.error)
    last = job.graph.vertices[-1]
    assert f"were not open yet: level {last.level}: '{last.name}'." in error
    assert "level 0" not in error


def test_a_worker_that_dies_later_is_not_told_of_with_operators() -> None:
    """A worker that is out of memory would be looked for in the code."""
    job = Job().runs()
    job.fails(TaskLostError("a worker went away"))
    assert str(job.attempt.error) == "a worker went away"


def test_a_new_attempt_waits_for_the_storage() -> None:
    """What is still to be deleted could meet files of the new attempt; a manifest could be stored behind its back."""
    job = Job().runs()
    job.stores = False
    number = job.begins_checkpoint()
    job.acknowledges(number, "file")
    job.fails(TaskLostError("a worker"))
    assert not any(isinstance(effect, Deploy) for effect in job.waits(60_000))
    job.store()
    assert job.completed == [number], "it was complete, so the job goes on from it"
    assert not any(isinstance(effect, AbortCommittables) for effect in job.effects)
    while job.operations:
        job.store()
    job.restarts()


def test_reports_of_an_earlier_attempt_are_dropped() -> None:
    """A late acknowledgement would complete a checkpoint that mixes two attempts."""
    job = Job().runs()
    job.fails(TaskLostError("a worker"))
    job.restarts().runs()
    number = job.begins_checkpoint()
    for vertex in job.graph.vertices:
        job.report(vertex.level, Acknowledge(vertex.id, 0, number), attempt=0)
    assert job.completed == []


def test_what_arrives_between_two_attempts_counts_for_neither() -> None:
    """What a lost attempt has written would be published with what the next one writes in its place."""
    job = Job().runs()
    number = job.begins_checkpoint()
    job.fails(TaskLostError("a worker"))
    assert not job.acknowledges(number, "hidden file")
    job.restarts().runs()
    effects = job.takes_checkpoint("file")
    assert [effect.committables for effect in effects if isinstance(effect, Commit)] == [["file"]]


def test_a_query_that_fails_after_it_was_stopped_is_no_failure() -> None:
    """A cancelled job would be reported as failed."""
    job = Job().runs()
    job.handle(CancelRequested())
    job.master.handle(Tick(), job.now_ms + SETTINGS.cancellation_timeout_ms)
    job.fails(TaskLostError("Spark says what it was told"))
    job.handle(AttemptStopped(AttemptId(0, 0)))
    assert job.finish and job.finish.status is JobStatus.CANCELED


# Recovery.


def test_results_that_do_not_count_yet_are_held_back() -> None:
    """A collected record would come twice after a restart."""
    job = Job().runs()
    vertex = vertex_of_sinks(job.graph)[job.sink]
    level = job.graph.vertices[vertex].level
    assert not job.report(level, Result(vertex, 0, job.sink, Opaque([1, 2]), 0))
    number = job.begins_checkpoint()
    job.report(level, Result(vertex, 0, job.sink, Opaque([3]), number))
    assert delivered(job.acknowledges(number)) == [1, 2]
    job.fails(TaskLostError("a worker"))
    assert any(isinstance(effect, RestartResults) for effect in job.waits(100))
    job.runs()
    assert delivered(job.takes_checkpoint()) == [], "3 comes again from the new attempt"


def test_a_restart_commits_again_what_its_checkpoint_names() -> None:
    """Output whose commit was under way when the worker died would never be seen."""
    job = Job().runs()
    job.commits = False
    job.takes_checkpoint("file")
    job.fails(TaskLostError("a worker"))
    job.restarts()
    again = [effect for effect in job.open_commits if effect.again]
    assert [effect.committables for effect in again] == [["file"]]


def test_a_commit_that_fails_fails_the_attempt_it_belongs_to() -> None:
    """Output would be missing though the job goes on; or an old error would fail the job that has repaired it."""
    job = Job().runs()
    job.commits = False
    job.takes_checkpoint("file")
    late = job.open_commits.pop()
    job.fails(TaskLostError("a worker"))
    job.restarts().runs()
    job.handle(CommitEnded(late.operation, OSError("the store is away")))
    assert job.master.status is JobStatus.RUNNING, "it is committed again"
    job.handle(CommitEnded(job.open_commits[-1].operation, OSError("the store is away")))
    assert "the store is away" in str(job.attempt.error)


def test_a_damaged_checkpoint_is_left_for_the_one_before_once() -> None:
    """If cancelled while it waits to restart, it would fall back once more and delete a good checkpoint."""
    job = Job().runs()
    for _ in range(3):
        job.takes_checkpoint()
    job.fails(TaskLostError("a worker"))
    job.restarts()
    job.fails(DamagedCheckpointError("a file is missing"))
    assert job.completed == [1, 2]
    job.handle(CancelRequested())
    assert job.completed == [1, 2]


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("what", ["committed", "delivered", "nothing"])
def test_a_damaged_checkpoint_with_which_output_was_committed(what: str, allowed: bool) -> None:
    """The job would write the same output twice, and say so in its log at most."""
    job = Job(dataclasses.replace(SETTINGS, allow_duplicates=allowed)).runs()
    job.takes_checkpoint()
    if what == "delivered":
        vertex = vertex_of_sinks(job.graph)[job.sink]
        job.report(job.graph.vertices[vertex].level, Result(vertex, 0, job.sink, Opaque([1]), 0))
    job.takes_checkpoint(*(["file"] if what == "committed" else []))
    job.fails(TaskLostError("a worker"))
    job.restarts()
    job.fails(DamagedCheckpointError("a file is missing"))
    if what == "nothing" or allowed:
        assert job.completed == [1] and job.master.status is JobStatus.RESTARTING
        stored = [effect.manifest.checkpoint_id for effect in job.effects if isinstance(effect, StoreManifest)]
        assert stored == [1, 2, 1], "a run that takes over must start from there, too"
    else:
        assert job.finish is not None and job.finish.status is JobStatus.FAILED
        assert "written a second time" in str(job.finish.error) and "--allow-duplicates" in str(job.finish.error)


def test_a_checkpoint_that_can_not_come_back_is_given_up() -> None:
    """A job whose only checkpoint has lost a file would be restarted for ever."""
    job = Job(attempts=1_000).runs()
    job.takes_checkpoint()
    job.fails(TaskLostError("a worker"))
    for _ in range(2):
        job.restarts()
        job.fails(DamagedCheckpointError("shared/1-x is missing"))
    job.restarts()
    job.fails(DamagedCheckpointError("shared/1-x is missing"))
    assert job.finish is not None and "shared/1-x is missing" in str(job.finish.error)


@pytest.mark.parametrize("runs", [True, False], ids=["while it runs", "while it waits for its restart"])
def test_a_run_that_was_taken_over_ends(runs: bool) -> None:
    """Two runs would do the same work side by side; and the end of one would delete the checkpoints of the other."""
    job = Job().runs()
    job.takes_checkpoint()
    job.stores = False
    number = job.begins_checkpoint()
    job.acknowledges(number, "file")
    if not runs:
        job.fails(TaskLostError("a worker"))
    before = len(job.effects)
    job.handle(StorageEnded(job.operations.pop(0).operation, "another run has taken the job over", fenced=True))
    if runs:
        job.of_tasks(lambda v: Finished(v, 0))
    assert job.finish is not None and job.finish.status is JobStatus.FAILED
    assert isinstance(job.finish.error, FencedError)
    after = job.effects[before:]
    assert not any(isinstance(effect, StorageEffect | Commit | AbortCommittables | Deploy) for effect in after)


def test_a_run_that_was_taken_over_ends_though_an_acknowledgement_comes_late() -> None:
    """It would wait for ever for the answer of a storage that was not asked any more."""
    job = Job().runs()
    job.takes_checkpoint("a")
    number = job.begins_checkpoint()
    job.handle(HostFailed(FencedError("another run has taken over the job")))
    job.acknowledges(number, "b")
    job.of_tasks(lambda v: Finished(v, 0))
    assert job.finish is not None and isinstance(job.finish.error, FencedError)


def test_a_run_that_was_taken_over_ends_though_another_checkpoint_waits_to_be_stored() -> None:
    """The same: with several checkpoints under way the next one is acknowledged when the storage says no."""
    checkpoints = dataclasses.replace(SETTINGS.checkpoints, concurrent_max=2)
    job = Job(dataclasses.replace(SETTINGS, checkpoints=checkpoints)).runs()
    job.takes_checkpoint("a")
    job.stores = False
    first, second = job.begins_checkpoint(), job.begins_checkpoint()
    job.acknowledges(first, "b")
    job.acknowledges(second, "c")
    job.handle(StorageEnded(job.operations.pop(0).operation, "another run has taken the job over", fenced=True))
    job.of_tasks(lambda v: Finished(v, 0))
    assert job.finish is not None and isinstance(job.finish.error, FencedError)


def test_a_run_that_is_told_of_its_successor_while_it_waits() -> None:
    """The restart would deploy tasks beside those of the run that has the job."""
    job = Job().runs()
    for _ in range(2):
        job.takes_checkpoint()
    job.fails(TaskLostError("a worker"))
    job.restarts()
    job.stores = False
    job.fails(DamagedCheckpointError("a file is missing"))
    assert job.master.status is JobStatus.RESTARTING
    job.handle(StorageEnded(job.operations.pop(0).operation, "another run has taken the job over", fenced=True))
    while job.operations:
        job.store()
    job.waits(10_000)
    assert job.finish is not None and isinstance(job.finish.error, FencedError)


@pytest.mark.parametrize(
    ("error", "runs"), [(CheckpointError("timeout"), False), (DamagedCheckpointError("of a running attempt"), True)]
)
def test_a_store_that_is_away_damages_nothing(error: Exception, runs: bool) -> None:
    """A moment without network would cost the newest checkpoint, and all since would come out again."""
    job = Job().runs()
    for _ in range(2):
        job.takes_checkpoint()
    job.fails(TaskLostError("a worker"))
    job.restarts()
    if runs:
        job.runs()
    job.fails(error)
    assert job.completed == [1, 2] and job.master.status is JobStatus.RESTARTING


def test_an_attempt_that_can_not_begin_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the attempt before would be reported in its place, and be taken for damage."""
    job = Job().runs()
    for _ in range(2):
        job.takes_checkpoint()
    job.fails(TaskLostError("a worker"))

    def away(*_: Any) -> None:
        raise SourceError("the bucket is away")

    monkeypatch.setattr(type(job.graph.sources[0].source), "restore_enumerator", away)
    job.waits(100)
    assert "the bucket is away" in str(job.attempt.error)
    assert job.completed == [1, 2] and job.master.status is JobStatus.RESTARTING


def test_damage_found_by_an_enumerator_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job would be restored from the damaged checkpoint again and again."""
    job = Job().runs()
    for _ in range(2):
        job.takes_checkpoint()
    job.fails(TaskLostError("a worker"))

    def damaged(*_: Any) -> None:
        raise DamagedCheckpointError("the enumerator's state is damaged")

    monkeypatch.setattr(type(job.graph.sources[0].source), "restore_enumerator", damaged)
    job.waits(100)
    assert job.completed == [1]


def test_an_enumerator_that_fails_fails_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that raises would stop the job master's thread; one that can't be closed would stop the restart."""
    enumerator = type(plan().sources[0].source.create_enumerator(_Nobody()))

    def gone(*_: Any) -> None:
        raise SourceError("it is gone")

    monkeypatch.setattr(enumerator, "handle_split_request", gone)
    monkeypatch.setattr(enumerator, "close", gone)
    job = Job().runs()
    job.report(0, RequestSplit(0, 0))
    assert "it is gone" in str(job.attempt.error)
    job.fails(TaskLostError("Spark stops"))
    assert job.master.status is JobStatus.RESTARTING


class _Nobody:
    parallelism = 1

    def now_ms(self) -> int:
        return 0


def test_results_that_can_not_be_delivered_fail_the_job() -> None:
    """A job would go on printing into a closed pipe."""
    job = Job().runs()
    job.handle(DeliveryFailed(AttemptId(0, 7), OSError("of no attempt that is known")))
    assert job.master.status is JobStatus.RUNNING
    job.handle(DeliveryFailed(AttemptId(0, 0), OSError("broken pipe")))
    assert "broken pipe" in str(job.attempt.error)


def test_a_fault_of_the_host_fails_the_attempt() -> None:
    """A job would hang after a fault of ours."""
    job = Job().runs()
    job.handle(HostFailed(JobError("a fault")))
    assert job.attempt.status is JobStatus.FAILING


def test_a_fault_while_the_job_ends_is_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The regions have ended, so nothing would end the job any more: the program would wait for ever."""
    job = Job().runs()

    def broken(*_: Any) -> None:
        raise AssertionError("a fault of ours")

    with monkeypatch.context() as broken_once:
        broken_once.setattr(job.master.coordinator, "tasks_ended", broken)
        with pytest.raises(AssertionError):
            job.fails(TaskLostError("a worker"))
    job.handle(HostFailed(JobError("a fault of ours")))
    assert job.finish is not None and job.finish.status is JobStatus.FAILED and "of ours" in str(job.finish.error)
