"""FileSink: small files become larger ones before they are visible."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.connectors.file_sinks import (
    all_prepared,
    checkpointed,
    hidden_files,
    lines_below,
    visible_files,
    visible_lines,
)

from penstock.common import Types
from penstock.common.errors import JobError
from penstock.connectors.files.sink import BucketAssigner, FileCompactor, FileCompactStrategy, FileSink, RollingPolicy
from penstock.connectors.files.sink.compaction import ConcatFileCompactor
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetFileCompactor
from penstock.testing.conformance.sink import SimpleSinkContext, check_sink

CONCAT = FileCompactor.concat_file_compactor()


def compacting(path: Path, strategy: FileCompactStrategy, compactor: FileCompactor = CONCAT) -> FileSink:
    builder = lines_below(path).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    return builder.enable_compact(strategy, compactor).build()


def each(checkpoints: int) -> FileCompactStrategy:
    return FileCompactStrategy.builder().enable_compaction_on_checkpoint(checkpoints).build()


def of_size(size: int) -> FileCompactStrategy:
    return FileCompactStrategy.builder().set_size_threshold(size).set_num_compact_threads(2).build()


@pytest.mark.parametrize("strategy", [each(1), each(3), of_size(1), of_size(1 << 30)])
def test_conformance(tmp_path: Path, strategy: FileCompactStrategy) -> None:
    """Readers would see records twice, half a file, or nothing."""
    targets: list[Path] = []

    def make_sink() -> FileSink:
        targets.append(tmp_path / str(len(targets)))
        return compacting(targets[-1], strategy)

    check_sink(make_sink, lambda: visible_lines(targets[-1]), [f"record {n}" for n in range(9)])


def test_files_of_some_checkpoints_become_one(tmp_path: Path) -> None:
    """A checkpoint each second would make a file each second."""
    sink = compacting(tmp_path, each(3))
    writer = sink.create_writer(SimpleSinkContext())
    handed_over, waiting = [], []
    for number in range(6):
        writer.write(number, None)
        committables, items = checkpointed(writer, number)
        handed_over += committables
        waiting.append(len(items))
    assert waiting[:2] == [1, 2]
    sink.create_committer().commit(handed_over + all_prepared(writer))
    assert [path.name.split("-")[0] for path in visible_files(tmp_path)] == ["compacted", "compacted"]
    assert visible_lines(tmp_path) == ["0", "1", "2", "3", "4", "5"] and hidden_files(tmp_path) == []


def test_files_of_some_size_become_one(tmp_path: Path) -> None:
    """Files would be small when little is written, or too large when much is."""
    sink = compacting(tmp_path, of_size(4))
    writer = sink.create_writer(SimpleSinkContext())
    handed_over = []
    for number in range(5):
        writer.write(number, None)
        handed_over += checkpointed(writer, number)[0]
    sink.create_committer().commit(handed_over + all_prepared(writer))
    assert [path.read_text() for path in visible_files(tmp_path)] == ["0\n1\n", "2\n3\n", "4\n"]


def test_a_restart_compacts_what_was_waiting(tmp_path: Path) -> None:
    """Files that wait for others would be lost with their worker, or be there twice."""
    sink = compacting(tmp_path, each(2))
    writer = sink.create_writer(SimpleSinkContext())
    writer.write("a", None)
    _, items = checkpointed(writer)
    writer.write("lost", None)
    late = all_prepared(writer)
    sink.create_committer().abort(late)
    writer.close()
    writer = sink.restore_writer(SimpleSinkContext(attempt="attempt-2"), items)
    writer.write("b", None)
    sink.create_committer().commit(all_prepared(writer))
    assert visible_lines(tmp_path) == ["a", "b"]
    assert len(hidden_files(tmp_path)) == 1, "only what was prepared and aborted"


def test_without_compaction_what_was_waiting_is_committed_as_it_is(tmp_path: Path) -> None:
    """A program in which compaction is disabled would lose what the one before it had not compacted."""
    writer = compacting(tmp_path, each(9)).create_writer(SimpleSinkContext())
    for number in range(2):
        writer.write(number, None)
        _, items = checkpointed(writer, number)
    builder = lines_below(tmp_path).enable_compact(each(9), CONCAT).disable_compact()
    sink = builder.build()
    sink.create_committer().commit(all_prepared(sink.restore_writer(SimpleSinkContext(attempt="attempt-2"), items)))
    assert visible_lines(tmp_path) == ["0", "1"]


def test_another_job_leaves_what_is_waiting_to_the_first(tmp_path: Path) -> None:
    """Two jobs from one checkpoint would remove each other's files."""
    sink = compacting(tmp_path, each(2))
    first = sink.create_writer(SimpleSinkContext(job_id="first"))
    first.write("first", None)
    _, items = checkpointed(first)
    other = sink.restore_writer(SimpleSinkContext(job_id="other", attempt="other-1"), items)
    other.write("other", None)
    sink.create_committer().commit(all_prepared(other))
    first.write("more", None)
    sink.create_committer().commit(all_prepared(first))
    assert sorted(visible_lines(tmp_path)) == ["first", "first", "more", "other"]


class Failing(FileCompactor):
    def compact(self, inputs: Sequence[IO[bytes]], output: IO[bytes]) -> None:
        output.write(inputs[0].read())
        raise ValueError("a compactor of the user's")


def test_a_compactor_that_fails_fails_the_job_and_leaves_what_a_restart_needs(tmp_path: Path) -> None:
    """Files would wait for ever, or be lost."""
    writer = compacting(tmp_path, each(2), Failing()).create_writer(SimpleSinkContext())
    writer.write("a", None)
    _, items = checkpointed(writer)
    writer.write("b", None)
    with pytest.raises(JobError, match=r"cannot compact the part files \S*part-\S*, \S*part-\S* into .*of the user's"):
        all_prepared(writer)
    writer.close()
    assert [path.read_text() for path in hidden_files(tmp_path)] == ["a\n"]
    sink = compacting(tmp_path, each(2))
    sink.create_committer().commit(all_prepared(sink.restore_writer(SimpleSinkContext(), items)))
    assert visible_lines(tmp_path) == ["a"]


def test_a_damaged_part_file_is_named(tmp_path: Path) -> None:
    """A user would not learn which of many part files a disk has damaged."""
    row_type = Types.ROW_NAMED(["n"], [Types.LONG()])
    builder = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(row_type))
    writer = builder.enable_compact(each(2), ParquetFileCompactor()).build().create_writer(SimpleSinkContext())
    for number in range(3):
        writer.write({"n": number}, None)
        if number == 0:
            checkpointed(writer)
            (first,) = hidden_files(tmp_path)
            data = bytearray(first.read_bytes())
            data[20] ^= 1
            first.write_bytes(data)
    with pytest.raises(JobError, match=rf"cannot compact the part file {first} into .*cannot read row group 0"):
        all_prepared(writer)
    writer.close()


def test_compactors() -> None:
    """Files would be joined without what stands between them."""

    def compacted(compactor: FileCompactor, *files: bytes) -> bytes:
        output = io.BytesIO()
        compactor.compact([io.BytesIO(file) for file in files], output)
        return output.getvalue()

    assert compacted(FileCompactor.concat_file_compactor(b"|"), b"a", b"b", b"c") == b"a|b|c"
    assert compacted(FileCompactor.identical_file_compactor(), b"a") == b"a"
    with pytest.raises(ValueError, match="expects one file, got 2"):
        compacted(FileCompactor.identical_file_compactor(), b"a", b"b")


def test_parquet_files_become_one_with_row_groups_of_the_usual_size(tmp_path: Path) -> None:
    """Bulk formats make a file with each checkpoint: these can't be joined byte by byte."""
    factory = ParquetBulkWriters.for_records(pa.schema([("n", pa.int64())]))
    builder = FileSink.for_bulk_format(tmp_path, factory).enable_compact(each(9), ParquetFileCompactor())
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    writer = sink.create_writer(SimpleSinkContext())
    for number in range(3):
        writer.write_chunk([{"n": 10 * number + n} for n in range(10)], None)
        assert checkpointed(writer, number)[0] == []
    sink.create_committer().commit(all_prepared(writer))
    (file,) = visible_files(tmp_path)
    read = pq.ParquetFile(file)
    assert read.num_row_groups == 1 and read.read().column("n").to_pylist() == list(range(30))
    assert hidden_files(tmp_path) == []


def test_mistakes_are_refused_when_the_sink_is_made(tmp_path: Path) -> None:
    """A strategy that never compacts would hold output back for ever."""
    with pytest.raises(ValueError, match="needs a condition"):
        FileCompactStrategy.builder().set_num_compact_threads(3).build()
    with pytest.raises(ValueError, match="size_threshold must be 1 or more"):
        FileCompactStrategy.builder().set_size_threshold(0)
    with pytest.raises(TypeError, match="expected a FileCompactStrategy"):
        lines_below(tmp_path).enable_compact(5, CONCAT)
    with pytest.raises(TypeError, match="expected a FileCompactor"):
        lines_below(tmp_path).enable_compact(each(1), "concat")
    with pytest.raises(TypeError, match="must be bytes"):
        ConcatFileCompactor(Any)
