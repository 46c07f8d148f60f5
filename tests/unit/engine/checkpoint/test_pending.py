"""A pending checkpoint, its manifest, and its report."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.checkpoint.manifests import state_of

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.commits import Committables
from penstock.engine.checkpoint.failure import CheckpointFailureReason, FailureTolerance
from penstock.engine.checkpoint.manifest import SubtaskReport, unpacked
from penstock.engine.checkpoint.pending import JobIdentity, PendingCheckpoint
from penstock.engine.checkpoint.plan import CheckpointPlan, CheckpointVertex
from penstock.engine.checkpoint.report import CheckpointReport
from penstock.engine.checkpoint.schedule import CheckpointRequest
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.state.handles import SnapshotFigures, SubtaskState

SINK = 7
VERTICES = [
    CheckpointVertex(0, "source", 1, 128, [("s", "source")], True),
    CheckpointVertex(1, "count", 3, 64, [("c", "count"), ("w", "sink")], False, {SINK: "w"}),
]
TASKS = [SubtaskId(vertex.id, subtask) for vertex in VERTICES for subtask in range(vertex.parallelism)]
JOB = JobIdentity("job", "a job", 2, 3)


def pending_of(request: CheckpointRequest | None = None) -> PendingCheckpoint:
    return PendingCheckpoint(9, 1_000, {"s": "splits"}, CheckpointPlan.of(0, VERTICES), request or CheckpointRequest())


def state(*files: str, ended: bool = False) -> SubtaskState:
    return SubtaskState({"c": state_of(files)} if files else {}, ended=ended)


@given(st.lists(st.sampled_from(TASKS), max_size=20))
def test_it_is_acknowledged_when_each_task_has_done_so(order: list[SubtaskId]) -> None:
    """A checkpoint would be complete without the state of a task, because another one answered twice."""
    pending = pending_of()
    for number, task in enumerate(order):
        pending.acknowledge(task, state(f"file-{number}"), [Committables(SINK, task.subtask, [number])])
        assert pending.is_acknowledged == (set(order[: number + 1]) == set(TASKS))
        assert (pending.acknowledged, pending.task_count) == (len(set(order[: number + 1])), len(TASKS))
    first = {task: order.index(task) for task in order}
    assert pending.files() == {f"file-{number}" for number in first.values()}, "the first answer of a task counts"
    taken = [committables.values for _, committables in pending.take_prepared()]
    assert taken == [[number] for number in sorted(first.values())]
    assert pending.take_prepared() == [], "what was taken is not committed again"


@given(st.permutations(TASKS))
def test_a_manifest_does_not_depend_on_who_was_first(order: list[SubtaskId]) -> None:
    """The state of one subtask would be restored in another."""
    pending = pending_of()
    for task in order:
        pending.acknowledge(task, state(f"file-{task.vertex}-{task.subtask}"), [])
    manifest = pending.manifest(JOB, VERTICES, [], 1_500)
    (operator,) = manifest.operators
    assert (operator.state_id, operator.name) == ("c", "count")
    assert (operator.parallelism, operator.max_parallelism) == (3, 64)
    found = {part.subtask: [file.path for file in part.state.keyed] for part in operator.subtasks}
    assert found == {subtask: [f"file-1-{subtask}"] for subtask in range(3)}
    assert [(report.vertex, report.subtask) for report in manifest.subtasks] == [
        ("source", 0),
        ("count", 0),
        ("count", 1),
        ("count", 2),
    ]


def test_what_a_manifest_says_of_its_job() -> None:
    """A job that looks for its latest checkpoint would take that of another one, or an older one of its own."""
    pending = pending_of()
    for task in TASKS:
        pending.acknowledge(task, state(ended=task.vertex == 0), [])
    manifest = pending.manifest(JOB, VERTICES, [], 1_500)
    assert (manifest.job_id, manifest.job_name, manifest.attempt) == ("job", "a job", 2)
    assert (manifest.checkpoint_id, manifest.triggered_ms, manifest.completed_ms) == (9, 1_000, 1_500)
    assert manifest.enumerators == {"s": "splits"} and not manifest.savepoint
    assert manifest.operators == [], "an operator without state is not in it"
    assert [report.ended for report in manifest.subtasks] == [True, False, False, False]


def test_commits_are_named_by_the_id_of_their_sink() -> None:
    """A job that was changed in the meantime would commit them to another sink, or to none."""
    pending = pending_of()
    for task in TASKS:
        pending.acknowledge(task, state(), [])
    commits = [Committables(SINK, 2, ["a"]), Committables(SINK, 0, ["b", "c"])]
    manifest = pending.manifest(JOB, VERTICES, commits, 1_500)
    assert {sink: list(map(unpacked, texts)) for sink, texts in manifest.commits.items()} == {
        "w": [(2, ["a"]), (0, ["b", "c"])]
    }


def test_a_savepoint_is_marked_as_one() -> None:
    """A job would treat a savepoint as its own checkpoint, and delete it."""
    pending = pending_of(CheckpointRequest(options=CheckpointOptions(savepoint="/sp")))
    for task in TASKS:
        pending.acknowledge(task, state(), [])
    assert pending.savepoint == "/sp" and pending.manifest(JOB, VERTICES, [], 0).savepoint
    assert not pending.is_being_stored
    pending.named = []
    assert pending.is_being_stored, "also if nothing is to be committed with it"


# What people read.


def test_figures_of_a_completed_checkpoint() -> None:
    """A user would look for the slow subtask in a sum in which it can't be seen."""
    figures = [SnapshotFigures(5, 1, 20, 0, 100, 300, 7), SnapshotFigures(2, 4, 10, 9, 50, 200, 8)]
    pending = pending_of()
    for task, one in zip(reversed(TASKS), [*figures, SnapshotFigures(), SnapshotFigures()], strict=True):
        pending.acknowledge(task, SubtaskState(figures=one), [])
    manifest = pending.manifest(JOB, VERTICES, [], 1_250)
    report = CheckpointReport.completed(pending, manifest)
    assert (report.checkpoint_id, report.triggered_ms, report.duration_ms) == (9, 1_000, 250)
    assert (report.acknowledged, report.of_subtasks, report.is_completed) == (4, 4, True)
    times = report.alignment_ms, report.sync_ms, report.async_ms, report.start_delay_ms
    assert times == (5, 4, 20, 8), "of the slowest, each"
    assert (report.written_bytes, report.total_bytes) == (150, 500)
    assert report.subtasks == manifest.subtasks and report.tasks == TASKS and report.parallelism == {0: 1, 1: 3}
    assert report.subtasks[-1] == SubtaskReport("count", 2, False, figures[0])


@pytest.mark.parametrize("reason", CheckpointFailureReason)
def test_each_reason_reads_as_a_sentence(reason: CheckpointFailureReason) -> None:
    """A user would see the name of a constant, or a pair of braces, and not what has happened."""
    pending = pending_of()
    pending.acknowledge(TASKS[0], state(), [])
    report = CheckpointReport.failed(pending, reason, "DETAIL", 1_040)
    assert not report.is_completed and "{" not in report.failure and report.failure
    assert ("DETAIL" in report.failure) == ("{detail}" in reason.sentence)
    assert str(reason.error("DETAIL")) == report.failure
    assert (report.acknowledged, report.of_subtasks, report.duration_ms) == (1, 4, 40)
    assert report.tasks == TASKS[:1] and report.subtasks[0].vertex == "source"


# How many failures are tolerated.


@pytest.mark.parametrize(
    ("reason", "counts"),
    [
        (CheckpointFailureReason.TRIGGER_FAILED, False),
        (CheckpointFailureReason.EXPIRED, True),
        (CheckpointFailureReason.DECLINED, True),
        (CheckpointFailureReason.DECLINED_ALIGNMENT_LIMIT, False),
        (CheckpointFailureReason.DECLINED_SUBSUMED, False),
        (CheckpointFailureReason.DECLINED_BY_ITERATION, False),
        (CheckpointFailureReason.MANIFEST_NOT_STORED, True),
        (CheckpointFailureReason.SUBSUMED, False),
        (CheckpointFailureReason.ATTEMPT_ENDED, False),
    ],
)
def test_which_failures_count(reason: CheckpointFailureReason, counts: bool) -> None:
    """A job that is only slow would be restarted; or one whose disk is full would run on without checkpoints."""
    error = FailureTolerance(0).failed(7, reason, "a detail")
    assert (error is not None) == counts
    if error is not None:
        assert isinstance(error, CheckpointError) and str(error).startswith("checkpoint 7 failed: ")


def test_each_reason_is_one_of_its_own() -> None:
    """Reasons with equal sentences would be the same: a job that is only slow would fail."""
    assert len(CheckpointFailureReason) == len(CheckpointFailureReason.__members__) == 9, "is it in the table above?"


@given(st.integers(0, 4), st.lists(st.sampled_from(["counts", "does not", "completed"]), max_size=30))
def test_failures_in_a_row_are_counted(tolerated: int, events: list[str]) -> None:
    """A job would fail for failures that lie days apart, or never."""
    tolerance = FailureTolerance(tolerated)
    for index, event in enumerate(events):
        if event == "completed":
            tolerance.reset()
            continue
        reason = CheckpointFailureReason.EXPIRED if event == "counts" else CheckpointFailureReason.SUBSUMED
        error = tolerance.failed(index, reason, "10 ms")
        since = itertools.takewhile(lambda one: one != "completed", reversed(events[: index + 1]))
        in_a_row = sum(one == "counts" for one in since)
        assert (error is not None) == (event == "counts" and in_a_row > tolerated)
        if error is not None:
            assert f"{in_a_row} in a row" in str(error) and f"({tolerated})" in str(error)
