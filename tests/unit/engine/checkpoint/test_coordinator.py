"""The coordinator: when checkpoints start, what completes them, and what is committed with them."""

from __future__ import annotations

import pytest
from tests.unit.engine.checkpoint.coordinated_job import COUNT, SINK, SOURCE, VERTICES, Job

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.manifest import unpacked
from penstock.engine.checkpoint.schedule import CheckpointRequest
from penstock.engine.runtime.checkpoint_options import DeclineReason
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.task.events import AbortCheckpoint, CheckpointComplete
from penstock.engine.state.handles import SnapshotFigures, SubtaskState


def test_one_begins_every_interval() -> None:
    """With too few, a failure would cost much repeated work; with too many, the job would do nothing else."""
    job = Job(interval_ms=100)
    assert job.passes(99).triggered() == []
    assert job.passes(1).triggered() == [1]
    assert job.passes(500).triggered() == [], "one at a time"
    job.acknowledge(1)
    assert job.passes(0).triggered() == [2]


def test_after_one_there_is_a_pause() -> None:
    """A job whose checkpoints are slow would do nothing but take them."""
    job = Job(interval_ms=100, pause_ms=80)
    job.passes(100).passes(90).acknowledge(1)
    job.triggered()
    assert job.passes(10).triggered() == []
    assert job.passes(70).triggered() == [2]


def test_after_a_savepoint_there_is_a_pause_too() -> None:
    """A job would have no time for its records after a savepoint, which takes longest. Source: CheckpointCoordinator,
    cleanupAfterCompletedCheckpoint."""
    job = Job(interval_ms=100, pause_ms=5_000)
    job.asks(lambda _: None, "/sp")
    (savepoint,) = job.triggered()
    job.acknowledge(savepoint)
    assert job.passes(4_900).triggered() == []
    assert len(job.passes(100).triggered()) == 1


def test_it_is_complete_when_all_tasks_have_acknowledged() -> None:
    """A restored job would lack the state of the slowest task."""
    job = Job()
    n = job.triggers()
    job.acknowledge(n, (SOURCE, 0), (SOURCE, 1), (COUNT, 0), (COUNT, 0))
    assert job.complete == []
    job.acknowledge(n, (COUNT, 1))
    assert job.complete == [n]
    assert {event for _, _, event in job.told[2:]} == {CheckpointComplete(n)}
    assert unpacked(job.storage.latest().enumerators["s"]) == ["split"]


def test_what_sinks_prepared_is_committed_after_the_manifest_is_written() -> None:
    """Output would be committed without the state that made it, and be written twice after a failure."""
    job = Job()
    n = job.triggers()
    job.acknowledge(n, commits=[(SINK, ["a"])])
    assert job.committed == [(SINK, 0, ["a"]), (SINK, 1, ["a"])]
    assert [unpacked(text) for text in job.storage.latest().commits["w"]] == [(0, ["a"]), (1, ["a"])]


def test_a_manifest_that_can_not_be_written_commits_nothing() -> None:
    """Output that no checkpoint knows would be published, and be written again after a failure."""
    job = Job()
    n = job.triggers()
    job.storage.fail()
    job.acknowledge(n, commits=[(SINK, ["a"])])
    assert (job.complete, job.committed) == ([], [])
    job.storage.heal()
    job.acknowledge(job.triggers(), commits=[(SINK, ["b"])])
    assert [values for _, _, values in job.committed] == [["a"], ["a"], ["b"], ["b"]]


def test_what_was_prepared_for_one_that_failed_comes_with_the_next_in_order() -> None:
    """Output would be lost if a transaction is never committed, or repeated after a failure if committed too early."""
    job = Job(concurrent_max=3)
    first, second, third = (job.triggers() for _ in range(3))
    job.declines((COUNT, 1), second, "for a reason")
    job.acknowledge(second, (COUNT, 0), commits=[(SINK, ["2"])])
    job.acknowledge(first, (COUNT, 0), commits=[(SINK, ["1"])])
    job.acknowledge(first, (SOURCE, 0), (SOURCE, 1), (COUNT, 1))
    assert job.committed == [(SINK, 0, ["1"])], "what came behind barrier 2 is not in checkpoint 1"
    job.acknowledge(third, commits=[(SINK, ["3"])])
    assert [values for _, subtask, values in job.committed if subtask == 0] == [["1"], ["2"], ["3"]]


def test_a_newer_one_subsumes_an_older_one() -> None:
    """The older one could complete afterwards, and the job would be restored from an older state than necessary."""
    job = Job(concurrent_max=2)
    older, newer = job.triggers(), job.triggers()
    job.acknowledge(older, (COUNT, 0), commits=[(SINK, ["1"])])
    job.acknowledge(newer)
    assert job.complete == [newer]
    assert job.committed == [(SINK, 0, ["1"])]
    assert AbortCheckpoint(older) in [event for _, _, event in job.told]
    job.acknowledge(older)
    assert job.complete == [newer]


def test_one_that_takes_too_long_is_given_up() -> None:
    """After one lost message no checkpoint would ever complete."""
    job = Job(interval_ms=100, timeout_ms=300)
    assert job.passes(100).triggered() == [1]
    assert job.passes(299).triggered() == []
    job.passes(1)
    assert AbortCheckpoint(1) in [event for _, _, event in job.told]
    assert job.triggered() == [2]


def test_the_last_one_may_take_too_long_as_well() -> None:
    """A job whose data has ended would wait forever for one lost message."""
    job = Job(interval_ms=100, timeout_ms=300)
    outcomes: list = []
    job.asks(outcomes.append)
    job.now_ms += 300
    job.coordinator.tick(job.now_ms, may_begin=False)
    job.does()
    assert isinstance(outcomes[0], CheckpointError)
    assert job.triggered() == [1], "none begins by itself"


def test_too_many_failures_in_a_row_fail_the_job() -> None:
    """A job would run for days without one checkpoint, unnoticed until it is needed."""
    job = Job(failures_tolerated=1)
    job.declines((COUNT, 0), job.triggers(), "disk full")
    assert job.coordinator.error is None
    job.acknowledge(job.triggers())
    job.declines((COUNT, 0), job.triggers(), "disk full")
    assert job.coordinator.error is None, "a success in between: counted again from 0"
    job.declines((COUNT, 0), job.triggers(), "disk full")
    assert "count (1) declined: disk full" in str(job.coordinator.error)
    assert "tolerable-failed-checkpoints (1)" in str(job.coordinator.error)


@pytest.mark.parametrize("reason", [DeclineReason.ALIGNMENT_LIMIT, DeclineReason.NEWER])
def test_a_task_that_is_only_slow_does_not_fail_the_job(reason: DeclineReason) -> None:
    """A job under back pressure would be restarted again and again, and never catch up."""
    job = Job(failures_tolerated=0)
    for _ in range(5):
        job.coordinator.declined(SubtaskId(COUNT, 0), job.triggers(), reason, "300 bytes were set aside", job.now_ms)
    assert job.coordinator.error is None
    assert ["count (1) declined: 300 bytes" in report.failure for report in job.coordinator.history] == [True] * 5


def test_failed_checkpoints_are_in_the_history() -> None:
    """Checkpoints that fail occasionally would go unnoticed until all fail."""
    job = Job(timeout_ms=300)
    declined = job.triggers()
    job.acknowledge(declined, (COUNT, 0))
    job.now_ms += 20
    job.declines((COUNT, 1), declined, "the disk is full")
    late = job.triggers()
    job.now_ms += 300
    job.coordinator.tick(job.now_ms, may_begin=False)
    subsumed, newer = job.triggers(), job.triggers()
    job.acknowledge(newer)
    left = job.triggers()
    job.coordinator.tasks_ended(VERTICES, job.now_ms)
    history = job.coordinator.history
    assert [report.checkpoint_id for report in history] == [declined, late, subsumed, newer, left]
    assert [report.is_completed for report in history] == [False, False, False, True, False]
    assert (history[0].acknowledged, history[0].of_subtasks, history[0].duration_ms) == (1, 4, 20)
    words = ["count (2) declined: the disk is full", "longer than 300 ms", f"{newer} was complete before", "", "ended"]
    assert all(word in report.failure for word, report in zip(words, history, strict=True))


def test_an_attempt_that_ends_takes_its_checkpoints_with_it() -> None:
    """A late acknowledgement of an ended attempt would complete a checkpoint that mixes two attempts."""
    job = Job()
    n = job.triggers()
    job.acknowledge(n, (COUNT, 0), commits=[(SINK, ["a"])])
    answers: list = []
    last = job.coordinator.trigger(job.now_ms, CheckpointRequest(answers.append))
    job.ends_attempt()
    assert isinstance(answers[0], CheckpointError) and len(answers) == 1
    job.coordinator.tasks_began(1, VERTICES, dict, job.now_ms)
    again = job.triggers()
    assert again > last
    job.acknowledge(again, commits=[(SINK, ["b"])])
    assert [values for _, _, values in job.committed] == [["b"], ["b"]]
    assert job.storage.latest().attempt == 1


def test_what_people_are_told_of_a_checkpoint() -> None:
    """A checkpoint that grows or slows down from day to day would be noticed when it fails."""
    job = Job()
    n = job.triggers()
    job.now_ms += 40
    for subtask, figures in enumerate((SnapshotFigures(5, 1, 20, 0, 100, 300), SnapshotFigures(9, 2, 10, 4, 50, 200))):
        job.coordinator.acknowledged(SubtaskId(COUNT, subtask), n, SubtaskState({}, figures), [], job.now_ms)
    job.acknowledge(n, (SOURCE, 0), (SOURCE, 1))
    (report,) = job.coordinator.history
    assert (report.checkpoint_id, report.duration_ms) == (n, 40)
    assert (report.alignment_ms, report.sync_ms, report.async_ms) == (9, 2, 20), "of the slowest"
    assert (report.written_bytes, report.total_bytes) == (150, 500)
    assert [one.figures.set_aside for one in report.subtasks] == [0, 0, 0, 4]


@pytest.mark.parametrize("retained", [1, 2])
def test_old_checkpoints_go_and_files_with_them(retained: int) -> None:
    """The storage would fill up, or a file that a checkpoint still needs would be deleted."""
    job = Job(retained=retained)
    for number in range(1, 5):
        job.acknowledge(job.triggers(), file=f"file{number}")
    assert job.complete == list(range(5 - retained, 5))
    assert {name.partition("-")[0] for name in job.storage.files} == {f"file{n}" for n in range(5 - retained, 5)}


def test_a_file_of_one_that_failed_stays_while_the_task_builds_on_it() -> None:
    """The next checkpoint would refer to a deleted file."""
    job = Job()
    failed = job.triggers()
    job.acknowledge(failed, (COUNT, 0), file="shared")
    job.declines((COUNT, 1), failed, "for a reason")
    job.acknowledge(job.triggers(), (SOURCE, 0), (SOURCE, 1), (COUNT, 1), file="other")
    assert "shared-1-0" in job.storage.files
    job.acknowledge(2, (COUNT, 0), file="shared")
    assert job.complete == [2]


def test_a_commit_is_in_every_manifest_until_it_is_done() -> None:
    """A driver that dies with open commits would forget those of the checkpoint before the last."""
    job = Job()
    job.commits_at_once = False
    job.acknowledge(job.triggers(), commits=[(SINK, ["a"])])
    job.acknowledge(job.triggers(), commits=[(SINK, ["b"])])
    assert [values for _, _, values in job.committed] == [["a"], ["a"], ["b"], ["b"]]
    held = [unpacked(text)[1] for text in job.storage.latest().commits["w"]]
    assert held == [["a"], ["a"], ["b"], ["b"]]

    again = Job()
    again.coordinator.commit_again(job.storage.latest(), VERTICES)
    again.does()
    assert [values for _, _, values in again.committed] == held
    again.acknowledge(again.triggers(), commits=[(SINK, ["c"])])
    assert "c" in str([unpacked(text) for text in again.storage.latest().commits["w"]])
    assert len(again.storage.latest().commits["w"]) == 2, "those that are done are not in it"


def test_what_will_never_be_committed_is_given_up() -> None:
    """Transactions and hidden files of a failed attempt would never be aborted."""
    job = Job()
    given_up = job.triggers()
    job.acknowledge(given_up, (COUNT, 0), commits=[(SINK, ["a"])])
    job.aborts(given_up)
    job.acknowledge(job.triggers(), (COUNT, 1), commits=[(SINK, ["b"])])
    job.ends_attempt()
    assert job.aborted == [(SINK, 0, ["a"]), (SINK, 1, ["b"])]
    assert not job.committed


def test_a_savepoint_waits_and_holds_checkpoints_back() -> None:
    """Barriers of a savepoint and of a checkpoint would overtake each other, and one of the two would be declined."""
    job = Job(interval_ms=100)
    first = job.triggers()
    outcomes: list = []
    job.asks(outcomes.append, "/sp")
    assert job.triggered() == [first]
    job.acknowledge(first)
    (savepoint,) = job.triggered()
    job.passes(500)
    assert not job.triggered()
    job.acknowledge(savepoint, commits=[(SINK, ["a"])])
    assert [manifest.checkpoint_id for manifest in outcomes] == [savepoint] and outcomes[0].savepoint
    assert not job.committed, "the job does not go back to a savepoint, so what it holds is not committed yet"
    assert job.storage.latest().checkpoint_id == first
    job.passes(1)
    (after,) = job.triggered()
    job.acknowledge(after, commits=[(SINK, ["b"])])
    assert [values for _, _, values in job.committed] == [["a"], ["a"], ["b"], ["b"]]


def test_a_savepoint_with_which_the_job_stops_is_committed() -> None:
    """What the job had written last would never be seen."""
    job = Job(interval_ms=100)
    outcomes: list = []
    job.asks(outcomes.append, "/sp", stop=True)
    (savepoint,) = job.triggered()
    job.acknowledge(savepoint, commits=[(SINK, ["a"])])
    assert [values for _, _, values in job.committed] == [["a"], ["a"]]
    assert job.coordinator.committed_id == savepoint


def test_nobody_goes_back_behind_a_savepoint_with_which_the_job_stops() -> None:
    """If a worker is lost while tasks close, all output since the last checkpoint would be repeated."""
    job = Job(interval_ms=100)
    job.asks(lambda outcome: None, "/first")
    job.acknowledge(*job.triggered())
    assert not job.coordinator.stopped
    job.asks(lambda outcome: None, "/second", stop=True)
    job.acknowledge(*job.triggered())
    assert job.coordinator.stopped


def test_a_savepoint_that_fails_is_the_affair_of_who_asked() -> None:
    """A job would fail because its user named a directory that does not exist."""
    job = Job(failures_tolerated=0)
    outcomes: list = []
    job.asks(outcomes.append, "/sp")
    (savepoint,) = job.triggered()
    job.declines((COUNT, 0), savepoint, "no such directory")
    assert isinstance(outcomes[0], CheckpointError) and "no such directory" in str(outcomes[0])
    assert job.coordinator.error is None


def test_what_a_savepoint_names_is_not_given_up() -> None:
    """A job started from the savepoint would miss hidden files that it names, and their rows."""
    job = Job(interval_ms=100)
    given_up = job.triggers()
    job.acknowledge(given_up, (COUNT, 0), commits=[(SINK, ["a"])])
    job.aborts(given_up)
    job.asks(lambda outcome: None, "/sp")
    (_, savepoint) = job.triggered()
    job.acknowledge(savepoint, commits=[(SINK, ["b"])])
    later = job.triggers()
    job.acknowledge(later, (COUNT, 0), commits=[(SINK, ["c"])])
    job.ends_attempt()
    assert job.aborted == [(SINK, 0, ["c"])]


def test_what_was_prepared_for_a_savepoint_that_failed_is_given_up_with_its_attempt() -> None:
    """Hidden files and open transactions would stay forever."""
    job = Job(interval_ms=100)
    job.asks(lambda outcome: None, "/sp")
    (savepoint,) = job.triggered()
    job.acknowledge(savepoint, (COUNT, 0), commits=[(SINK, ["a"])])
    job.declines((COUNT, 1), savepoint, "the disk is full")
    job.ends_attempt()
    assert job.aborted == [(SINK, 0, ["a"])]


def test_a_job_that_stops_with_a_savepoint_is_on_record_before_anything_is_committed() -> None:
    """After a driver dies during commits, the latest checkpoint would precede them, and they would be repeated."""
    job = Job(interval_ms=100)
    job.acknowledge(job.triggers())
    assert job.complete
    job.triggered()
    job.stores_at_once = False
    job.asks(savepoint="/sp", stop=True)
    job.acknowledge(*job.triggered(), commits=[(SINK, ["a"])])
    assert not job.committed
    job.stores()
    seen = job.storage.recorded()
    assert seen is not None and seen.end is not None and seen.end.savepoint == "/sp" and seen.checkpoint is None
    assert len(job.committed) == 2
    job.stores()
    assert not job.complete


def test_a_run_that_was_taken_over_commits_nothing_more() -> None:
    """Two runs of one job would write the same output."""
    job = Job(interval_ms=100)
    job.acknowledge(job.triggers(), commits=[(SINK, ["a"])])
    run = job.storage.take_over("a job")
    job.acknowledge(job.triggers(), commits=[(SINK, ["b"])])
    assert job.requests.is_fenced and len(job.committed) == 2, "that of the first one only"
    job.ends_attempt()
    assert not job.aborted, "what it knows of the other run is nothing: it may have been restored from there"
    job.end.end("FINISHED")
    job.does()
    assert job.storage.latest() is not None and run.epoch == 2


def test_a_savepoint_with_which_a_run_stops_that_was_taken_over() -> None:
    """Output would be committed that the other run writes again."""
    job = Job(interval_ms=100)
    job.acknowledge(job.triggers())
    job.storage.take_over("a job")
    job.triggered()
    outcomes: list[object] = []
    job.asks(outcomes.append, savepoint="/sp", stop=True)
    job.acknowledge(*job.triggered(), commits=[(SINK, ["a"])])
    assert job.requests.is_fenced and not job.committed and not job.coordinator.stopped
    assert "another run" in str(outcomes[0])


def test_what_is_finished_is_on_record_before_it_is_deleted() -> None:
    """If a driver dies in between, the next one would repeat the whole job."""
    job = Job(interval_ms=100)
    job.acknowledge(job.triggers())
    job.stores_at_once = False
    job.end.end("FINISHED")
    job.does().stores()
    assert job.storage.recorded().end.status == "FINISHED" and job.complete
    job.stores()
    assert not job.complete and not job.operations
    failing = Job(interval_ms=100)
    failing.acknowledge(failing.triggers())
    failing.storage.fail()
    failing.end.end("FINISHED")
    failing.does()
    assert failing.complete == [1] and not failing.operations, "what is not on record must stay"


def test_falling_back_is_on_record() -> None:
    """A run that takes over would try the damaged checkpoint again, whose files are deleted."""
    job = Job(interval_ms=100, retained=2)
    for _ in range(2):
        job.acknowledge(job.triggers(), commits=[(SINK, ["a"])])
    assert job.completed.possible_fall_back.committed == ["w"] and job.storage.latest().checkpoint_id == 2
    job.completed.fall_back()
    job.does().ends_attempt()
    assert job.storage.latest().checkpoint_id == 1 and job.complete == [1]
    assert job.completed.possible_fall_back is None


def test_the_end_waits_until_all_is_committed() -> None:
    """A commit that fails when the tasks are gone is never repeated."""
    job = Job()
    job.commits_at_once = False
    ended: list[str] = []
    job.acknowledge(job.triggers(), commits=[(SINK, ["a"])])
    job.coordinator.when_committed(lambda: ended.append("end"))
    job.commits_next()
    assert not ended
    job.commits_next()
    assert ended == ["end"]
    job.coordinator.when_committed(lambda: ended.append("at once"))
    assert ended == ["end", "at once"]


def test_of_failures_only_those_count_that_say_something_of_the_job() -> None:
    """A job would fail because a newer checkpoint overtook an older one, or because a user aborted one."""
    job = Job(failures_tolerated=0, concurrent_max=2)
    older, newer = job.triggers(), job.triggers()
    job.acknowledge(newer).aborts(job.triggers())
    assert older not in job.coordinator.under_way and job.coordinator.error is None
