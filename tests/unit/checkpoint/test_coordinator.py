"""The coordinator: when checkpoints begin, what makes them complete, and what is committed with them."""

from __future__ import annotations

from random import Random

import pytest

from penstock.checkpoint.coordinator import CheckpointCoordinator, CheckpointSettings, VertexOutline, Wanted
from penstock.checkpoint.manifest import unpacked
from penstock.common.errors import CheckpointError
from penstock.runtime.task.events import AbortCheckpoint, CheckpointComplete, TriggerCheckpoint
from penstock.simulator.storage import MemoryStorage
from penstock.state.handles import KeyedFile, OperatorState, SnapshotFigures, SubtaskState

SOURCE, COUNT = 0, 1
SINK = 7


class Job:
    """Two source subtasks, two counting ones; tasks are played by the test."""

    def __init__(self, **settings) -> None:
        self.now_ms = 1_000
        self.storage = MemoryStorage(Random(0), 0)
        self.told: list = []
        self.committed: list = []
        self.aborted: list = []
        self.commits_at_once = True
        self.coordinator = CheckpointCoordinator(
            "job",
            "a job",
            [
                VertexOutline(SOURCE, "source", 2, 128, [("s", "source")], True),
                VertexOutline(COUNT, "count", 2, 128, [("c", "count"), ("w", "sink")], False),
            ],
            CheckpointSettings(**{"failures_tolerated": 100, **settings}),
            self.storage,
            lambda: self.now_ms,
            self.commit,
            lambda *lost: self.aborted.append(lost),
            {SINK: "w"},
        )
        self.coordinator.attempt_began(0, lambda *event: self.told.append(event), lambda: {"s": ["split"]})

    def commit(self, sink: int, subtask: int, values: list, done, again: bool) -> None:
        self.committed.append((sink, subtask, values))
        if self.commits_at_once:
            done()

    def passes(self, ms: int) -> Job:
        self.now_ms += ms
        self.coordinator.tick()
        return self

    def triggered(self) -> list[int]:
        """Checkpoints that sources were told to begin since the last call."""
        told, self.told = self.told, []
        return sorted({event.checkpoint_id for _, _, event in told if isinstance(event, TriggerCheckpoint)})

    def acknowledge(self, checkpoint_id: int, *tasks: tuple[int, int], file: str = "", commits=()) -> Job:
        for task in tasks or ((SOURCE, 0), (SOURCE, 1), (COUNT, 0), (COUNT, 1)):
            state = SubtaskState()
            if file:
                name = f"{file}-{task[0]}-{task[1]}"
                self.storage.files[name] = b""
                state = SubtaskState({"c": OperatorState([KeyedFile(name, 0, [], [])])})
            self.coordinator.acknowledged(task, checkpoint_id, state, list(commits) if task[0] == COUNT else [])
        return self

    @property
    def complete(self) -> list[int]:
        return sorted(self.storage.manifests)


def test_one_begins_every_interval() -> None:
    """Too few: much is done again after a failure. Too many: nothing else is done."""
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


def test_it_is_complete_when_all_tasks_have_acknowledged() -> None:
    """A restored job would lack the state of the slowest task."""
    job = Job()
    n = job.coordinator.trigger()
    job.acknowledge(n, (SOURCE, 0), (SOURCE, 1), (COUNT, 0), (COUNT, 0))
    assert job.complete == []
    job.acknowledge(n, (COUNT, 1))
    assert job.complete == [n]
    assert {event for _, _, event in job.told[2:]} == {CheckpointComplete(n)}
    assert unpacked(job.storage.latest().enumerators["s"]) == ["split"]


def test_what_sinks_prepared_is_committed_after_the_manifest_is_written() -> None:
    """Output without the state that made it: after a failure it would come a second time."""
    job = Job()
    n = job.coordinator.trigger()
    job.acknowledge(n, commits=[(SINK, ["a"])])
    assert job.committed == [(SINK, 0, ["a"]), (SINK, 1, ["a"])]
    assert [unpacked(text) for text in job.storage.latest().commits["w"]] == [(0, ["a"]), (1, ["a"])]


def test_a_manifest_that_can_not_be_written_commits_nothing() -> None:
    """Output would be published of which no checkpoint knows: after a failure it would come again."""
    job = Job()
    n = job.coordinator.trigger()
    job.storage._failure_rate = 1
    job.acknowledge(n, commits=[(SINK, ["a"])])
    assert (job.complete, job.committed) == ([], [])
    job.storage.heal()
    job.acknowledge(job.coordinator.trigger(), commits=[(SINK, ["b"])])
    assert [values for _, _, values in job.committed] == [["a"], ["a"], ["b"], ["b"]]


def test_what_was_prepared_for_one_that_failed_comes_with_the_next_in_order() -> None:
    """A transaction that nobody commits is output lost; one committed too early comes again after a failure."""
    job = Job(concurrent_max=3)
    first, second, third = (job.coordinator.trigger() for _ in range(3))
    job.coordinator.declined((COUNT, 1), second, "for a reason")
    job.acknowledge(second, (COUNT, 0), commits=[(SINK, ["2"])])
    job.acknowledge(first, (COUNT, 0), commits=[(SINK, ["1"])])
    job.acknowledge(first, (SOURCE, 0), (SOURCE, 1), (COUNT, 1))
    assert job.committed == [(SINK, 0, ["1"])], "what came behind barrier 2 is not in checkpoint 1"
    job.acknowledge(third, commits=[(SINK, ["3"])])
    assert [values for _, subtask, values in job.committed if subtask == 0] == [["1"], ["2"], ["3"]]


def test_a_newer_one_subsumes_an_older_one() -> None:
    """The older one could complete afterwards, and the job would go back further than it has to."""
    job = Job(concurrent_max=2)
    older, newer = job.coordinator.trigger(), job.coordinator.trigger()
    job.acknowledge(older, (COUNT, 0), commits=[(SINK, ["1"])])
    job.acknowledge(newer)
    assert job.complete == [newer]
    assert job.committed == [(SINK, 0, ["1"])]
    assert AbortCheckpoint(older) in [event for _, _, event in job.told]
    job.acknowledge(older)
    assert job.complete == [newer]


def test_one_that_takes_too_long_is_given_up() -> None:
    """One lost message, and there would be no checkpoint any more."""
    job = Job(interval_ms=100, timeout_ms=300)
    assert job.passes(100).triggered() == [1]
    assert job.passes(299).triggered() == []
    job.passes(1)
    assert AbortCheckpoint(1) in [event for _, _, event in job.told]
    assert job.triggered() == [2]


def test_the_last_one_may_take_too_long_as_well() -> None:
    """A job whose data has ended would wait for ever for one lost message."""
    job = Job(interval_ms=100, timeout_ms=300)
    outcomes: list = []
    job.coordinator.ask(Wanted(outcomes.append))
    job.now_ms += 300
    job.coordinator.tick(may_begin=False)
    assert isinstance(outcomes[0], CheckpointError)
    assert job.triggered() == [1], "none begins by itself"


def test_too_many_failures_in_a_row_fail_the_job() -> None:
    """A job would run for days without one checkpoint, and nobody would notice until it is needed."""
    job = Job(failures_tolerated=1)
    job.coordinator.declined((COUNT, 0), job.coordinator.trigger(), "disk full")
    assert job.coordinator.error is None
    job.acknowledge(job.coordinator.trigger())
    job.coordinator.declined((COUNT, 0), job.coordinator.trigger(), "disk full")
    assert job.coordinator.error is None, "a success in between: counted anew"
    job.coordinator.declined((COUNT, 0), job.coordinator.trigger(), "disk full")
    assert "count (1) declined: disk full" in str(job.coordinator.error)
    assert "tolerable-failed-checkpoints (1)" in str(job.coordinator.error)


def test_an_attempt_that_ends_takes_its_checkpoints_with_it() -> None:
    """A late acknowledgement of a dead attempt would complete a checkpoint of two worlds."""
    job = Job()
    n = job.coordinator.trigger()
    job.acknowledge(n, (COUNT, 0), commits=[(SINK, ["a"])])
    answers: list = []
    last = job.coordinator.trigger(Wanted(answers.append))
    job.coordinator.attempt_ended()
    assert isinstance(answers[0], CheckpointError) and len(answers) == 1
    job.coordinator.attempt_began(1, lambda *event: job.told.append(event), dict)
    again = job.coordinator.trigger()
    assert again > last
    job.acknowledge(again, commits=[(SINK, ["b"])])
    assert [values for _, _, values in job.committed] == [["b"], ["b"]]
    assert job.storage.latest().attempt == 1


def test_what_people_are_told_of_a_checkpoint() -> None:
    """A checkpoint that grows or slows down from day to day would be noticed when it fails."""
    job = Job()
    n = job.coordinator.trigger()
    job.now_ms += 40
    for subtask, figures in enumerate((SnapshotFigures(5, 1, 20, 0, 100, 300), SnapshotFigures(9, 2, 10, 4, 50, 200))):
        job.coordinator.acknowledged((COUNT, subtask), n, SubtaskState({}, figures), [])
    job.acknowledge(n, (SOURCE, 0), (SOURCE, 1))
    (report,) = job.coordinator.history
    assert (report.checkpoint_id, report.duration_ms) == (n, 40)
    assert (report.alignment_ms, report.sync_ms, report.async_ms) == (9, 2, 20), "of the slowest"
    assert (report.written_bytes, report.total_bytes) == (150, 500)
    assert [one.figures.set_aside for one in report.subtasks] == [0, 0, 0, 4]


@pytest.mark.parametrize("retained", [1, 2])
def test_old_checkpoints_go_and_files_with_them(retained: int) -> None:
    """The store would fill up; or a file would go that a checkpoint still needs."""
    job = Job(retained=retained)
    for number in range(1, 5):
        job.acknowledge(job.coordinator.trigger(), file=f"file{number}")
    assert job.complete == list(range(5 - retained, 5))
    assert {name.partition("-")[0] for name in job.storage.files} == {f"file{n}" for n in range(5 - retained, 5)}


def test_a_file_of_one_that_failed_stays_while_the_task_builds_on_it() -> None:
    """The next checkpoint would refer to a file that is gone."""
    job = Job()
    failed = job.coordinator.trigger()
    job.acknowledge(failed, (COUNT, 0), file="shared")
    job.coordinator.declined((COUNT, 1), failed, "for a reason")
    job.acknowledge(job.coordinator.trigger(), (SOURCE, 0), (SOURCE, 1), (COUNT, 1), file="other")
    assert "shared-1-0" in job.storage.files
    job.acknowledge(2, (COUNT, 0), file="shared")
    assert job.complete == [2]


def test_a_commit_is_in_every_manifest_until_it_is_done() -> None:
    """A driver that dies with commits still to do would forget those of the checkpoint before the last."""
    job = Job()
    job.commits_at_once = False
    job.acknowledge(job.coordinator.trigger(), commits=[(SINK, ["a"])])
    job.acknowledge(job.coordinator.trigger(), commits=[(SINK, ["b"])])
    assert [values for _, _, values in job.committed] == [["a"], ["a"], ["b"], ["b"]]
    held = [unpacked(text)[1] for text in job.storage.latest().commits["w"]]
    assert held == [["a"], ["a"], ["b"], ["b"]]

    again = Job()
    again.coordinator.commit_again(job.storage.latest())
    assert [values for _, _, values in again.committed] == held
    again.acknowledge(again.coordinator.trigger(), commits=[(SINK, ["c"])])
    assert "c" in str([unpacked(text) for text in again.storage.latest().commits["w"]])
    assert len(again.storage.latest().commits["w"]) == 2, "those that are done are not in it"


def test_what_will_never_be_committed_is_given_up() -> None:
    """Transactions and hidden files of an attempt that failed would stay open, or lie about, for ever."""
    job = Job()
    given_up = job.coordinator.trigger()
    job.acknowledge(given_up, (COUNT, 0), commits=[(SINK, ["a"])])
    job.coordinator.abort(given_up, "no reason")
    job.acknowledge(job.coordinator.trigger(), (COUNT, 1), commits=[(SINK, ["b"])])
    job.coordinator.attempt_ended()
    assert job.aborted == [(SINK, 0, ["a"]), (SINK, 1, ["b"])]
    assert not job.committed


def test_a_savepoint_waits_and_holds_checkpoints_back() -> None:
    """Barriers of a savepoint and of a checkpoint would overtake each other, and one of the two would be declined."""
    job = Job(interval_ms=100)
    first = job.coordinator.trigger()
    outcomes: list = []
    job.coordinator.ask(Wanted(outcomes.append, "/sp"))
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
    job.coordinator.ask(Wanted(outcomes.append, "/sp", stop=True))
    (savepoint,) = job.triggered()
    job.acknowledge(savepoint, commits=[(SINK, ["a"])])
    assert [values for _, _, values in job.committed] == [["a"], ["a"]]
    assert job.coordinator.committed_id == savepoint


def test_nobody_goes_back_behind_a_savepoint_with_which_the_job_stops() -> None:
    """A worker lost while the tasks are closed, and all since the last checkpoint would come out twice."""
    job = Job(interval_ms=100)
    job.coordinator.ask(Wanted(lambda outcome: None, "/first"))
    job.acknowledge(*job.triggered())
    assert not job.coordinator.stopped
    job.coordinator.ask(Wanted(lambda outcome: None, "/second", stop=True))
    job.acknowledge(*job.triggered())
    assert job.coordinator.stopped


def test_a_savepoint_that_fails_is_the_affair_of_who_asked() -> None:
    """A job would fail because somebody named a directory that is not there."""
    job = Job(failures_tolerated=0)
    outcomes: list = []
    job.coordinator.ask(Wanted(outcomes.append, "/sp"))
    (savepoint,) = job.triggered()
    job.coordinator.declined((COUNT, 0), savepoint, "no such directory")
    assert isinstance(outcomes[0], CheckpointError) and "no such directory" in str(outcomes[0])
    assert job.coordinator.error is None


def test_what_a_savepoint_names_is_not_given_up() -> None:
    """Who starts from the savepoint would find hidden files gone that it names, and rows with them."""
    job = Job(interval_ms=100)
    given_up = job.coordinator.trigger()
    job.acknowledge(given_up, (COUNT, 0), commits=[(SINK, ["a"])])
    job.coordinator.abort(given_up, "too slow")
    job.coordinator.ask(Wanted(lambda outcome: None, "/sp"))
    (_, savepoint) = job.triggered()
    job.acknowledge(savepoint, commits=[(SINK, ["b"])])
    later = job.coordinator.trigger()
    job.acknowledge(later, (COUNT, 0), commits=[(SINK, ["c"])])
    job.coordinator.attempt_ended()
    assert job.aborted == [(SINK, 0, ["c"])]


def test_what_was_prepared_for_a_savepoint_that_failed_is_given_up_with_its_attempt() -> None:
    """Hidden files and open transactions would stay for ever."""
    job = Job(interval_ms=100)
    job.coordinator.ask(Wanted(lambda outcome: None, "/sp"))
    (savepoint,) = job.triggered()
    job.acknowledge(savepoint, (COUNT, 0), commits=[(SINK, ["a"])])
    job.coordinator.declined((COUNT, 1), savepoint, "the disk is full")
    job.coordinator.attempt_ended()
    assert job.aborted == [(SINK, 0, ["a"])]


def test_before_a_job_stops_with_a_savepoint_its_checkpoints_go() -> None:
    """A driver that dies over the commits would leave a latest checkpoint behind which they lie: done twice."""
    job = Job(interval_ms=100)
    job.acknowledge(job.coordinator.trigger())
    assert job.complete
    of_commits: list[list[int]] = []
    commit = job.commit
    job.coordinator._commit = lambda *what: (of_commits.append(job.complete), commit(*what))
    job.triggered()
    job.coordinator.ask(Wanted(lambda outcome: None, "/sp", stop=True))
    job.acknowledge(*job.triggered(), commits=[(SINK, ["a"])])
    assert of_commits == [[], []]


def test_the_end_waits_until_all_is_committed() -> None:
    """A commit that fails when the tasks are gone is done again by nobody."""
    job = Job()
    job.commits_at_once = False
    undone: list = []
    job.coordinator._commit = lambda sink, subtask, values, done, again: undone.append(done)
    ended: list[str] = []
    job.acknowledge(job.coordinator.trigger(), commits=[(SINK, ["a"])])
    job.coordinator.when_committed(lambda: ended.append("end"))
    undone[0]()
    assert not ended
    undone[1]()
    assert ended == ["end"]
    job.coordinator.when_committed(lambda: ended.append("at once"))
    assert ended == ["end", "at once"]
