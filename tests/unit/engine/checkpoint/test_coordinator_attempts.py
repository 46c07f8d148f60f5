"""The coordinator across attempts and with savepoints: restores, refusals, and carried output."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.checkpoint.coordinated_job import COUNT, SINK, SOURCE, VERTICES, Job
from tests.unit.engine.checkpoint.manifests import manifest_of

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.effects import RetainOnly, StoreManifest
from penstock.engine.checkpoint.manifest import Manifest, packed
from penstock.engine.checkpoint.plan import CheckpointVertex
from penstock.engine.checkpoint.schedule import CheckpointRequest
from penstock.engine.runtime.checkpoint_options import CheckpointOptions, DeclineReason
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.task.events import AbortCheckpoint, TriggerCheckpoint
from penstock.engine.state.handles import KeyedFile, OperatorState, SubtaskState


def begins_again(job: Job, attempt: int = 1) -> Job:
    job.coordinator.tasks_began(attempt, VERTICES, lambda: {"s": packed(["split"])}, job.now_ms)
    return job


@pytest.mark.parametrize(
    ("job_id", "savepoint", "retained"), [("job", False, [7]), ("job", True, []), ("another", False, [])]
)
def test_numbers_go_on_from_what_the_job_starts_from(job_id: str, savepoint: bool, retained: list[int]) -> None:
    """A new checkpoint would be written over the one that the job was restored from."""
    job = Job()
    job.coordinator.start_from(manifest_of(7, job_id=job_id, savepoint=savepoint))
    assert [one.checkpoint_id for one in job.completed.retained] == retained
    assert job.triggers() == 8
    job.coordinator.start_from(manifest_of(3, job_id="another"))
    assert job.triggers() == 9, "an older one does not turn the numbers back"


def test_no_checkpoint_begins_without_the_state_of_the_enumerators() -> None:
    """Splits would be read twice or not at all after a restart from that checkpoint."""
    job = Job()
    job.coordinator.tasks_began(1, VERTICES, lambda: None, job.now_ms)
    outcomes: list[Manifest | CheckpointError] = []
    assert job.coordinator.trigger(job.now_ms, CheckpointRequest(outcomes.append)) is None
    assert job.does().triggered() == [] and job.coordinator.under_way == []
    (outcome,) = outcomes
    assert isinstance(outcome, CheckpointError) and "split enumerator" in str(outcome)
    assert begins_again(job).triggers() == 1, "no number was used up"


def test_the_trigger_carries_how_the_checkpoint_is_to_be_taken() -> None:
    """A savepoint would be written as an increment, or the sources would not stop with it."""
    job = Job()
    options = CheckpointOptions(full=True)
    job.coordinator.trigger(job.now_ms, CheckpointRequest(options=options))
    job.does()
    assert job.told == [(SOURCE, subtask, TriggerCheckpoint(1, job.now_ms, options)) for subtask in range(2)]


def test_what_arrives_after_the_end_of_an_attempt_is_aborted() -> None:
    """Transactions of a lost attempt would stay open, and block those that read from the same table."""
    job = Job()
    number = job.triggers()
    job.ends_attempt()
    job.acknowledge(number, (COUNT, 0), file="late", commits=[(SINK, ["late"])])
    assert job.aborted == [(SINK, 0, ["late"])] and not job.committed
    begins_again(job).acknowledge(job.triggers(), commits=[(SINK, ["a"])])
    assert job.committed == [(SINK, 0, ["a"]), (SINK, 1, ["a"])]


def test_nothing_begins_between_two_attempts() -> None:
    """A checkpoint would be triggered at tasks that have ended, and expire in the next attempt."""
    job = Job(interval_ms=100)
    job.ends_attempt()
    assert job.passes(10_000).triggered() == []
    assert job.coordinator.wake_at_ms(True) is None
    begins_again(job)
    assert job.coordinator.wake_at_ms(True) == job.now_ms + 100
    assert job.coordinator.wake_at_ms(False) is None


def test_a_savepoint_under_way_is_deleted_with_its_attempt() -> None:
    """A user would find a directory without a manifest, and no error would have named it."""
    job = Job(interval_ms=100)
    outcomes: list[Any] = []
    job.asks(outcomes.append, "/sp")
    job.asks(outcomes.append, "/waits")
    job.storage.files["/sp/file"] = b"x"
    job.ends_attempt()
    assert [type(outcome) for outcome in outcomes] == [CheckpointError] * 2, "also the one that had not begun"
    assert "/sp/file" not in job.storage.files
    assert list(job.coordinator.history) == [], "savepoints are no part of the history of checkpoints"
    assert not job.coordinator.request_waits


def test_failures_before_a_restart_do_not_count_after_it() -> None:
    """A job would fail with its first declined checkpoint, because the last attempt had some."""
    job = Job(failures_tolerated=1)
    job.declines((COUNT, 0), job.triggers(), "disk full")
    begins_again(job.ends_attempt())
    job.declines((COUNT, 0), job.triggers(), "disk full")
    assert job.coordinator.error is None


def test_the_first_error_is_kept_until_it_is_taken() -> None:
    """The job would fail with the last of many errors, and not with the one that began it."""
    job = Job(failures_tolerated=0)
    for text in ("first", "second"):
        job.declines((COUNT, 0), job.triggers(), text)
    assert "first" in str(job.coordinator.error)


def test_what_an_attempt_leaves_behind_is_swept() -> None:
    """Files of killed workers would fill the store, or files of retained checkpoints would be deleted with them."""
    job = Job(retained=2)
    job.acknowledge(job.triggers(), file="kept")
    job.acknowledge(job.triggers(), (COUNT, 0), file="given-up")
    job.storage.files["of-a-killed-worker"] = b"x"
    job.ends_attempt()
    assert {name.partition("-")[0] for name in job.storage.files} == {"kept"}


@pytest.mark.parametrize("interval_ms", [None, 100])
def test_without_checkpoints_a_savepoint_commits_what_it_names(interval_ms: int | None) -> None:
    """Output of a job without checkpoints would never be seen; with them, it could be committed a second time."""
    job = Job(interval_ms=interval_ms)
    outcomes: list[Any] = []
    job.asks(outcomes.append, "/sp")
    (savepoint,) = job.triggered()
    job.acknowledge(savepoint, commits=[(SINK, ["a"])])
    assert isinstance(outcomes[0], Manifest)
    assert job.committed == ([(SINK, 0, ["a"]), (SINK, 1, ["a"])] if interval_ms is None else [])
    assert job.coordinator.committed_id == (savepoint if interval_ms is None else 0)


def test_a_savepoint_that_could_not_be_stored_is_answered_and_its_output_is_kept() -> None:
    """A full disk for savepoints would lose rows of the job's regular output."""
    job = Job(interval_ms=100, failures_tolerated=0)
    outcomes: list[Any] = []
    job.asks(outcomes.append, "/sp")
    (savepoint,) = job.triggered()
    job.storage.fail()
    job.acknowledge(savepoint, commits=[(SINK, ["a"])])
    job.storage.heal()
    assert isinstance(outcomes[0], CheckpointError) and "manifest could not be written" in str(outcomes[0])
    assert job.coordinator.error is None, "the job does not depend on it"
    job.acknowledge(job.triggers(), commits=[(SINK, ["b"])])
    assert [values for _, subtask, values in job.committed if subtask == 0] == [["a"], ["b"]]


def test_what_may_be_on_record_all_the_same_is_kept_until_a_later_one_is() -> None:
    """After a lost answer of the store, a job that starts from there would commit output that was discarded."""
    job = Job(interval_ms=100)
    job.storage.fail()
    job.acknowledge(job.triggers(), commits=[(SINK, ["a"])])
    job.storage.heal()
    job.ends_attempt()
    assert job.aborted == []
    begins_again(job).acknowledge(job.triggers(), commits=[(SINK, ["a, again"])])
    assert [values for _, _, values in job.aborted] == [["a"], ["a"]]
    assert [values for _, _, values in job.committed] == [["a, again"], ["a, again"]]
    job.acknowledge(job.triggers(), (COUNT, 0), commits=[(SINK, ["b"])])
    job.ends_attempt()
    assert [values for _, _, values in job.aborted[2:]] == [["b"]], "what no manifest has named goes at once"
    job.storage.fail()
    begins_again(job, 2).acknowledge(job.triggers(), commits=[(SINK, ["c"])])
    job.storage.heal()
    job.ends_attempt()
    assert len(job.aborted) == 3
    job.coordinator.abort_uncertain()
    assert [values for _, _, values in job.does().aborted[3:]] == [["c"], ["c"]]


def test_files_of_a_savepoint_are_no_part_of_a_chain() -> None:
    """The next checkpoint would keep files of a user's savepoint alive, or be built on them and be lost with them."""
    job = Job(interval_ms=100)
    job.acknowledge(job.triggers(), file="checkpoint")
    job.asks(lambda outcome: None, "/sp")
    savepoint = job.triggered()[-1]
    for task in (SubtaskId(vertex, subtask) for vertex in (SOURCE, COUNT) for subtask in range(2)):
        job.coordinator.acknowledged(task, savepoint, SubtaskState(), [], job.now_ms)
        job.does()
    assert any(name.startswith("checkpoint-") for name in job.storage.files)
    job.acknowledge(job.triggers(), file="next")
    assert {name.partition("-")[0] for name in job.storage.files} == {"next"}


def test_after_a_stop_nothing_is_taken_any_more() -> None:
    """A job restored from a later checkpoint would repeat what was committed with the savepoint."""
    job = Job(interval_ms=100)
    job.asks(savepoint="/sp", stop=True)
    (savepoint,) = job.triggered()
    job.acknowledge(savepoint)
    assert job.coordinator.stopped
    outcomes: list[Any] = []
    job.asks(outcomes.append)
    assert job.passes(10_000).triggered() == [] and outcomes == []
    job.ends_attempt()
    assert isinstance(outcomes[0], CheckpointError)


def test_commits_of_a_sink_that_is_gone_are_left_out() -> None:
    """A program without that sink could not be started from this checkpoint, even if its user allows it."""
    job = Job()
    named = {"w": [packed((0, ["a"]))], "gone": [packed((1, ["b"]))]}
    job.coordinator.commit_again(manifest_of(3, commits=named), VERTICES)
    job.does()
    assert job.committed == [(SINK, 0, ["a"])]


def test_a_commit_from_before_a_restore_does_not_count() -> None:
    """An old failure would fail the attempt that has committed the same rows successfully."""
    job = Job()
    job.commits_at_once = False
    job.acknowledge(job.triggers(), commits=[(SINK, ["a"])])
    old = job.commits[0].operation
    job.ends_attempt()
    latest = job.completed.newest
    assert latest is not None
    job.coordinator.commit_again(latest, VERTICES)
    new = next(effect.operation for effect in job.effects if not isinstance(effect, RetainOnly | StoreManifest))
    assert (job.coordinator.sink_of_open_commit(old), job.coordinator.sink_of_open_commit(new)) == (None, SINK)


@pytest.mark.parametrize(
    ("reason", "detail", "text"),
    [
        (DeclineReason.STATE, "the disk is full", "count (2) declined: the disk is full"),
        (DeclineReason.NEWER, "", "count (2) declined: a newer checkpoint reached it first"),
        (DeclineReason.ALIGNMENT_LIMIT, "300 bytes", "count (2) declined: 300 bytes"),
    ],
)
def test_who_declined_is_said_by_name(reason: DeclineReason, detail: str, text: str) -> None:
    """A user would not find the task whose disk is full."""
    job = Job()
    number = job.triggers()
    job.coordinator.declined(SubtaskId(COUNT, 1), number, reason, detail, job.now_ms)
    assert job.coordinator.history[-1].failure == text
    job.does()
    assert {event for _, _, event in job.told[2:]} == {AbortCheckpoint(number)}
    job.coordinator.declined(SubtaskId(COUNT, 0), number, reason, detail, job.now_ms)
    assert len(job.coordinator.history) == 1, "a checkpoint is aborted once"


# The tasks of one region end; the tasks of another one continue.

OTHER_SINK = 8
BESIDE = CheckpointVertex(2, "beside", 1, 128, [("b", "beside"), ("x", "other sink")], True, {OTHER_SINK: "x"})
BESIDE_TASK = SubtaskId(2, 0)
FIRST_TASKS = ((SOURCE, 0), (SOURCE, 1), (COUNT, 0), (COUNT, 1))


def with_another_region() -> Job:
    """The usual job, and a separate source with its own sink."""
    job = Job(interval_ms=100)
    job.coordinator.tasks_began(0, [*VERTICES, BESIDE], lambda: {}, job.now_ms)
    return job


def beside_acknowledges(job: Job, number: int, *values: str, file: str = "") -> None:
    state = SubtaskState()
    if file:
        job.storage.files[file] = b""
        state = SubtaskState({"b": OperatorState([KeyedFile(file, 0, [], [])])})
    commits = [(OTHER_SINK, list(values))] if values else []
    job.coordinator.acknowledged(BESIDE_TASK, number, state, commits, job.now_ms)
    job.does()


def all_run_again(job: Job, attempt: int = 1) -> None:
    job.coordinator.tasks_began(attempt, [*VERTICES, BESIDE], lambda: {}, job.now_ms)


def test_the_tasks_that_run_learn_that_their_checkpoint_is_aborted() -> None:
    """A source that has stopped for a savepoint would never read again."""
    job = with_another_region()
    outcomes: list[Any] = []
    job.asks(outcomes.append, "/sp", stop=True)
    (number,) = job.triggered()
    job.ends_tasks(VERTICES)
    assert job.told == [(2, 0, AbortCheckpoint(number))], "those that are gone hear nothing"
    assert isinstance(outcomes[0], CheckpointError)
    job.told.clear()
    assert job.passes(10_000).triggered() == [], "not before all tasks run"
    all_run_again(job)
    assert job.passes(100).triggered() == [number + 1]


def test_only_what_the_ended_tasks_prepared_is_discarded() -> None:
    """Output of a healthy region would be lost with another region, or output of the lost region be written twice."""
    job = with_another_region()
    carried = job.triggers()
    job.acknowledge(carried, (COUNT, 0), commits=[(SINK, ["carried"])])
    beside_acknowledges(job, carried, "stays")
    job.aborts(carried)
    pending = job.triggers()
    job.acknowledge(pending, (COUNT, 0), commits=[(SINK, ["pending"])])
    beside_acknowledges(job, pending, "stays too")
    job.ends_tasks(VERTICES)
    assert [(sink, values) for sink, _, values in job.aborted] == [(SINK, ["carried"]), (SINK, ["pending"])]
    all_run_again(job)
    number = job.triggers()
    job.acknowledge(number, *FIRST_TASKS)
    beside_acknowledges(job, number)
    assert [(sink, values) for sink, _, values in job.committed] == [
        (OTHER_SINK, ["stays"]),
        (OTHER_SINK, ["stays too"]),
    ]
    assert job.storage.latest().attempt == 1


def test_an_acknowledgement_counts_if_its_task_still_runs() -> None:
    """A slow task would lose what its sink prepared, or an ended task would publish twice."""
    job = with_another_region()
    number = job.triggers()
    job.ends_tasks(VERTICES)
    beside_acknowledges(job, number, "late")
    job.acknowledge(number, (COUNT, 0), commits=[(SINK, ["of a task that is gone"])])
    assert [values for _, _, values in job.aborted] == [["of a task that is gone"]]
    all_run_again(job)
    number = job.triggers()
    job.acknowledge(number, *FIRST_TASKS)
    beside_acknowledges(job, number)
    assert [values for _, _, values in job.committed] == [["late"]]


def test_files_of_tasks_that_run_stay_and_those_of_the_others_go() -> None:
    """The next increment of a task would build on a deleted file, or files of a lost region would stay forever."""
    job = with_another_region()
    number = job.triggers()
    job.acknowledge(number, (COUNT, 0), file="lost")
    beside_acknowledges(job, number, file="needed")
    job.ends_tasks(VERTICES)
    assert not any(isinstance(effect, RetainOnly) for effect in job.operations)
    assert {"lost-1-0", "needed"} == job.storage.files.keys(), "no sweep while a task may be writing"
    all_run_again(job)
    number = job.triggers()
    job.acknowledge(number, *FIRST_TASKS, file="new")
    beside_acknowledges(job, number, file="needed")
    assert "needed" in job.storage.files and "lost-1-0" not in job.storage.files
    job.ends_tasks([*VERTICES, BESIDE])
    assert job.storage.files.keys() == job.storage.latest().files(), "with the last task everything is swept"


def test_a_savepoint_stays_one_for_tasks_that_still_run() -> None:
    """The file of a user's savepoint would become part of a chain, and be lost when its user deletes it."""
    job = with_another_region()
    job.asks(lambda outcome: None, "/sp")
    savepoint = job.triggered()[-1]
    job.ends_tasks(VERTICES)
    beside_acknowledges(job, savepoint, file="of the savepoint")
    all_run_again(job)
    number = job.triggers()
    job.acknowledge(number, *FIRST_TASKS)
    beside_acknowledges(job, number, file="own")
    assert "of the savepoint" in job.storage.files, "not known to the checkpoints, so not deleted with them"


def test_only_commits_of_the_restored_sinks_are_forgotten() -> None:
    """A commit of a healthy region that fails would be ignored, and its rows be missing."""
    job = with_another_region()
    job.commits_at_once = False
    number = job.triggers()
    job.acknowledge(number, *FIRST_TASKS, commits=[(SINK, ["a"])])
    beside_acknowledges(job, number, "b")
    of_sink = {commit.sink: commit.operation for commit in job.commits}
    job.ends_tasks(VERTICES)
    latest = job.completed.newest
    assert latest is not None
    job.commits.clear()
    job.coordinator.commit_again(latest, VERTICES)
    job.does()
    assert {commit.sink for commit in job.commits} == {SINK}
    assert job.coordinator.sink_of_open_commit(of_sink[SINK]) is None
    assert job.coordinator.sink_of_open_commit(of_sink[OTHER_SINK]) == OTHER_SINK
