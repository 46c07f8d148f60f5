"""FileSink: files that continue across checkpoints, restarts, and jobs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.connectors.file_sinks import (
    all_prepared,
    checkpointed,
    hidden_files,
    lines_below,
    visible_files,
    visible_lines,
)

from penstock.common.errors import JobError
from penstock.connectors.files.sink import RollingPolicy
from penstock.testing.conformance.sink import SimpleSinkContext


class ByLetter:
    def get_bucket_id(self, element: Any, context: Any) -> str:
        return str(element)[0]


def test_a_file_goes_on_over_checkpoints(tmp_path: Path) -> None:
    """With a checkpoint each second, a day would leave 86,400 files of each subtask."""
    sink = lines_below(tmp_path).build()
    writer = sink.create_writer(SimpleSinkContext())
    for number in range(5):
        writer.write(number, None)
        committables, (item,) = checkpointed(writer, number)
        assert committables == [] and item.file.size == 2 * (number + 1)
    writer.flush(True)
    sink.create_committer().commit(writer.prepare_commit())
    assert len(visible_files(tmp_path)) == 1 and visible_lines(tmp_path) == ["0", "1", "2", "3", "4"]


def test_a_policy_may_close_files_with_each_checkpoint(tmp_path: Path) -> None:
    """Readers that want what is committed at once could not have it."""
    sink = lines_below(tmp_path).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write("a", None)
    committables, items = checkpointed(writer)
    assert len(committables) == 1 and items == []


def test_without_checkpoints_and_for_savepoints_all_is_handed_over(tmp_path: Path) -> None:
    """A savepoint would name a file that only one of its jobs can continue, or a last commit would lack records."""
    writer = lines_below(tmp_path).build().create_writer(SimpleSinkContext(checkpointing=False))
    writer.write("a", None)
    assert len(checkpointed(writer)[0]) == 1
    writer = lines_below(tmp_path).build().create_writer(SimpleSinkContext())
    writer.write("a", None)
    writer.prepare_savepoint()
    assert [len(part) for part in checkpointed(writer)] == [1, 0]
    writer.write("a", None)
    assert [len(part) for part in checkpointed(writer)] == [0, 1]


def test_a_restart_goes_on_behind_the_checkpoint(tmp_path: Path) -> None:
    """Records after the checkpoint would be there twice, or those before it lost."""
    sink = lines_below(tmp_path).build()
    context = SimpleSinkContext(clock_ms=500)
    first = sink.create_writer(context)
    first.write_chunk(["a", "b"], None)
    _, items = checkpointed(first)
    first.write("lost", None)
    context.clock_ms = 2_000
    second = sink.restore_writer(SimpleSinkContext(attempt="attempt-2", clock_ms=2_000), items)
    # As old as it was: else a job that restarts often would never close it by its age.
    assert second.wake_at_ms() == 60_500
    second.write("c", None)
    committables = all_prepared(second)
    sink.create_committer().commit(committables)
    assert visible_lines(tmp_path) == ["a", "b", "c"]
    first.close()
    assert hidden_files(tmp_path) == []


def test_a_writer_that_was_taken_for_dead_changes_nothing(tmp_path: Path) -> None:
    """A worker that was stopped for a minute would write into the file of its successor, or remove it."""
    sink = lines_below(tmp_path).build()
    stopped = sink.create_writer(SimpleSinkContext())
    stopped.write("a", None)
    _, items = checkpointed(stopped)
    successor = sink.restore_writer(SimpleSinkContext(attempt="attempt-2"), items)
    successor.write("b", None)
    stopped.write_chunk(["x"] * 1_000, None)
    late = all_prepared(stopped)
    stopped.close()
    sink.create_committer().abort(late)
    # The checkpoint is restored once more: its file must still be there.
    successor = sink.restore_writer(SimpleSinkContext(attempt="attempt-3"), items)
    successor.write("b", None)
    sink.create_committer().commit(all_prepared(successor))
    assert visible_lines(tmp_path) == ["a", "b"]


def test_several_restarts_leave_nothing(tmp_path: Path) -> None:
    """Each restart would leave a copy of the part file."""
    sink = lines_below(tmp_path).build()
    writer = sink.create_writer(SimpleSinkContext())
    for number in range(4):
        writer.write(number, None)
        _, items = checkpointed(writer, number)
        writer.close()
        writer = sink.restore_writer(SimpleSinkContext(attempt=f"attempt-{number}"), items)
    committables = all_prepared(writer)
    for _ in range(2):
        sink.create_committer().commit_again(committables)
        assert visible_lines(tmp_path) == ["0", "1", "2", "3"] and hidden_files(tmp_path) == []


def test_fewer_subtasks_go_on_with_one_file_of_a_bucket(tmp_path: Path) -> None:
    """After a rescale, files of one bucket would replace each other."""
    sink = lines_below(tmp_path).with_bucket_assigner(ByLetter()).build()
    items = []
    for subtask in range(3):
        writer = sink.create_writer(SimpleSinkContext(subtask=subtask, parallelism=3))
        writer.write_chunk([f"a{subtask}", f"b{subtask}"], None)
        items += checkpointed(writer)[1]
    writer = sink.restore_writer(SimpleSinkContext(attempt="attempt-2"), items)
    committables, left = checkpointed(writer)
    assert len(committables) == 4 and {item.bucket for item in left} == {"a", "b"}
    writer.write("a3", None)
    sink.create_committer().commit(committables + all_prepared(writer))
    assert sorted(visible_lines(tmp_path)) == ["a0", "a1", "a2", "a3", "b0", "b1", "b2"]
    assert hidden_files(tmp_path) == []


def test_another_job_leaves_the_files_of_the_first_alone(tmp_path: Path) -> None:
    """Two jobs from one checkpoint would take each other's output away."""
    sink = lines_below(tmp_path).build()
    first = sink.create_writer(SimpleSinkContext(job_id="first"))
    first.write("a", None)
    _, items = checkpointed(first)
    other = sink.restore_writer(SimpleSinkContext(job_id="other", attempt="other-1"), items)
    other.write("other", None)
    sink.create_committer().commit(all_prepared(other))
    first.write("first", None)
    sink.create_committer().commit(all_prepared(first))
    assert sorted(visible_lines(tmp_path)) == ["a", "a", "first", "other"]


def test_what_is_visible_already_is_not_written_again(tmp_path: Path) -> None:
    """A job that starts from an older checkpoint would publish its first records twice."""
    sink = lines_below(tmp_path).build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write("a", None)
    _, items = checkpointed(writer)
    sink.create_committer().commit(all_prepared(writer))
    later = sink.restore_writer(SimpleSinkContext(attempt="attempt-2"), items)
    later.write("b", None)
    sink.create_committer().commit(all_prepared(later))
    assert sorted(visible_lines(tmp_path)) == ["a", "b"]


def test_a_file_whose_share_is_away_is_not_lost(tmp_path: Path) -> None:
    """The job would go back to an older checkpoint, or end, because a share is not mounted for a moment."""
    out = tmp_path / "out"
    sink = lines_below(out).build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write("a", None)
    _, items = checkpointed(writer)
    away = out.rename(tmp_path / "away")
    with pytest.raises(OSError, match=f"directory {out} is not there"):
        sink.restore_writer(SimpleSinkContext(attempt="attempt-2"), items)
    away.rename(out)
    successor = sink.restore_writer(SimpleSinkContext(attempt="attempt-3"), items)
    sink.create_committer().commit(all_prepared(successor))
    assert visible_lines(out) == ["a"]


@pytest.mark.parametrize(("damage", "told"), [("truncate", "has 1 bytes, but had 2"), ("remove", "it is missing")])
def test_a_file_that_is_not_what_it_was_is_told(tmp_path: Path, damage: str, told: str) -> None:
    """Records would silently be missing from the output."""
    sink = lines_below(tmp_path).build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write("a", None)
    _, items = checkpointed(writer)
    (path,) = hidden_files(tmp_path)
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(b"a")
    with pytest.raises(JobError, match=told):
        sink.restore_writer(SimpleSinkContext(attempt="attempt-2"), items)


def test_what_a_failed_job_had_in_progress_is_removed_unless_a_checkpoint_names_it(tmp_path: Path) -> None:
    """Failed jobs would fill the disk, or a restart would miss its file."""
    sink = lines_below(tmp_path).with_bucket_assigner(ByLetter()).build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write("a", None)
    checkpointed(writer)
    writer.write("b", None)
    writer.close()
    assert [path.parent.name for path in hidden_files(tmp_path)] == ["a"]


def test_a_program_that_now_closes_files_with_each_checkpoint_finishes_those_of_before(tmp_path: Path) -> None:
    """A changed policy or format would leave records behind that were never published."""
    writer = lines_below(tmp_path).build().create_writer(SimpleSinkContext())
    writer.write("a", None)
    _, items = checkpointed(writer)
    changed = lines_below(tmp_path).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    committables, left = checkpointed(changed.restore_writer(SimpleSinkContext(attempt="attempt-2"), items))
    changed.create_committer().commit(committables)
    assert visible_lines(tmp_path) == ["a"] and left == []


@pytest.mark.parametrize("links", [True, False])
def test_a_savepoint_stays_whole_when_its_job_goes_back_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """The commit of its successor removed the file as an obsolete one: records were silently missing."""

    def no_links(source: str, target: str) -> None:
        raise OSError("not supported")

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    sink = lines_below(tmp_path).build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write("1", None)
    _, items = checkpointed(writer)
    writer.write_chunk(["2", "3"], None)
    savepoint = all_prepared(writer)
    writer.close()
    successor = sink.restore_writer(SimpleSinkContext(attempt="job-1-1-x", is_restored=True), items)
    successor.write("2", None)
    sink.create_committer().commit(all_prepared(successor))
    assert sorted(visible_lines(tmp_path)) == ["1", "2"]

    for _ in range(2):
        sink.create_committer().commit_again(savepoint)
        assert sorted(visible_lines(tmp_path)) == ["1", "1", "2", "2", "3"]
    assert not hidden_files(tmp_path)


def test_a_savepoint_that_is_committed_leaves_nothing_beside(tmp_path: Path) -> None:
    """Each savepoint would leave a hidden file for each that was being written."""
    sink = lines_below(tmp_path).build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write("1", None)
    checkpointed(writer)
    writer.write("2", None)
    savepoint = all_prepared(writer)
    assert len(hidden_files(tmp_path)) == 2
    sink.create_committer().commit(savepoint)
    assert visible_lines(tmp_path) == ["1", "2"] and not hidden_files(tmp_path)
