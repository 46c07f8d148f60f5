"""Micro-batches of a streaming DataFrame in files, and the reader that deletes those that a checkpoint has as read."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from penstock.api.source import Records
from penstock.common.errors import SourceError
from penstock.connectors.files.formats.parquet_format import ParquetFormat
from penstock.hosts.spark.frames.batch_files import BatchFile, BatchFileReader
from penstock.hosts.spark.frames.batch_folder import BatchFolder


class Context:
    """The context of a reader in a job that takes checkpoints."""

    checkpointing = True
    requests = 0

    def request_split(self) -> None:
        self.requests += 1


def written(batches: BatchFolder, batch: int, rows: range) -> list[BatchFile]:
    """Write a batch of two files as Spark does, and have it complete."""
    folder = Path(batches.rows_of(batch))
    folder.mkdir(parents=True)
    half = len(rows) // 2
    for name, part in (("part-0.parquet", rows[:half]), ("part-1.parquet", rows[half:])):
        parquet.write_table(pyarrow.table({"id": list(part)}), folder / name)
    (folder / "_SUCCESS").touch()
    (folder / "._SUCCESS.crc").touch()
    batches.publish(batch)
    return [BatchFile(path, batch) for path in batches.files_of(batch) or ()]


def reader(keep_files: bool = False) -> BatchFileReader:
    context: Any = Context()
    return BatchFileReader(context, ParquetFormat(as_row=True), keep_files)


def ids(reader: BatchFileReader, polls: int) -> list[int]:
    found: list[int] = []
    for _ in range(polls):
        step = reader.poll(3)
        if isinstance(step, Records):
            found += [row.id for row in step.values]
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_batch_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    """Readers would read a batch that Spark writes again, with other rows in its files."""
    batches = BatchFolder(str(tmp_path / "frame"), "one")
    assert batches.complete() == []
    unfinished = Path(batches.rows_of(0))
    unfinished.mkdir(parents=True)
    parquet.write_table(pyarrow.table({"id": [1]}), unfinished / "part-9.parquet")
    assert batches.complete() == []
    assert batches.files_of(0) is None

    batches.publish(0)
    files = written(batches, 1, range(4))
    assert batches.complete() == [0, 1]
    assert [Path(file.path).name for file in files] == ["part-0.parquet", "part-1.parquet"]
    batches.publish(2)
    assert batches.files_of(2) == [], "a batch without rows"

    # A killed query, in a JVM that has not ended yet, writes at the same time as the next one.
    late = BatchFolder(str(tmp_path / "frame"), "late")
    written(late, 1, range(4))
    assert [file.path for file in files] == batches.files_of(1) == late.files_of(1)


def test_batches_are_removed_when_all_their_files_were_deleted(tmp_path: Path) -> None:
    """The folder would grow with each batch, or unread rows would be deleted."""
    batches = BatchFolder(str(tmp_path / "frame"), "one")
    batches.publish(0)
    files = [written(batches, batch, range(4)) for batch in range(1, 4)]
    batches.publish(4)
    batches.remove_read(before=5)
    assert batches.complete() == [0, 1, 2, 3, 4], "no checkpoint has anything as read"
    for file in [*files[0], files[1][0], *files[2]]:
        Path(file.path).unlink()

    batches.remove_read(before=3)
    assert batches.complete() == [2, 3, 4], "one has a file, and that behind the position may have readers to come"
    assert not Path(batches.rows_of(1)).exists()
    assert batches.files_of(1) is None
    assert Path(files[1][1].path).exists()
    batches.remove_read(before=5)
    assert batches.complete() == [2, 4], "a job may continue from the last one, though it has no rows"


def test_files_are_deleted_when_a_checkpoint_has_them_as_read(tmp_path: Path) -> None:
    """A job that is restored from its latest checkpoint would miss rows; or the disk would fill up."""
    batches = BatchFolder(str(tmp_path / "frame"), "one")
    first, second = written(batches, 0, range(20))
    one = reader()
    one.add_splits([first, second])
    # Ten rows by three are four polls, and one says that the file has ended.
    assert ids(one, 5) == [*range(10)]
    one.prepare_snapshot(1)
    assert one.snapshot_state() == [second, BatchFile(first.path, 0, 10, is_read=True)]
    assert ids(one, 5) == [*range(10, 20)]
    one.prepare_snapshot(2)
    one.notify_checkpoint_aborted(2)
    one.notify_checkpoint_complete(1)
    wait_until(lambda: not Path(first.path).exists())
    assert Path(second.path).exists(), "checkpoint 1 begins in it"
    wait_until(lambda: len(one.snapshot_state()) == 1)

    # The job is restored from a checkpoint that was complete, and had not deleted yet.
    restored = reader()
    restored.add_splits(one.snapshot_state())
    restored.start()
    assert ids(restored, 3) == []
    wait_until(lambda: not Path(second.path).exists())
    wait_until(lambda: restored.snapshot_state() == [])


def test_a_position_in_a_file(tmp_path: Path) -> None:
    """A restored job would read rows of a file twice, or leave some out."""
    batches = BatchFolder(str(tmp_path / "frame"), "one")
    for polls in range(5):
        first, _ = written(batches, polls, range(20))
        one = reader()
        one.add_splits([first])
        before = ids(one, polls)
        restored = reader()
        restored.add_splits(one.snapshot_state())
        assert before + ids(restored, 9) == [*range(10)]


def test_files_that_are_kept_or_missing(tmp_path: Path) -> None:
    """A job could not start from an older savepoint though its user has configured that, or would fail silently."""
    batches = BatchFolder(str(tmp_path / "frame"), "one")
    first, second = written(batches, 0, range(20))
    one = reader(keep_files=True)
    one.add_splits([first])
    assert len(ids(one, 5)) == 10
    one.prepare_snapshot(1)
    assert one.snapshot_state() == []

    Path(second.path).unlink()
    one.add_splits([second])
    with pytest.raises(SourceError, match="keep_files=True"):
        one.poll(3)
    assert Path(first.path).exists()
