"""FileSink in an object store: objects are uploaded once, in parts, and appear with their commit."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.connectors.driven import SourceInTest
from tests.unit.connectors.file_sinks import all_prepared, checkpointed, lines_below

from penstock.common.errors import JobError, ProgramError, SourceError
from penstock.common.time import Duration
from penstock.connectors.files.sink import BucketAssigner, FileCompactor, FileCompactStrategy, FileSink, RollingPolicy
from penstock.connectors.files.sink.uploads import PART_BYTES_MIN
from penstock.connectors.files.source import FileSource, StreamFormat
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.testing.conformance.sink import SimpleSinkContext, check_sink
from penstock.testing.conformance.source import read_all

pytestmark = pytest.mark.connectors
_LINE = "x" * 99_999
_LINES_OF_A_PART = PART_BYTES_MIN // 100_000 + 1


class Store:
    """The bucket, seen from outside. It keeps all that has ever been in it."""

    def __init__(self, bucket: str) -> None:
        self._client = boto3.client("s3")
        self._bucket = bucket.removeprefix("s3://")
        self._client.put_bucket_versioning(Bucket=self._bucket, VersioningConfiguration={"Status": "Enabled"})

    def objects(self, below: str = "") -> dict[str, bytes]:
        found = self._client.list_objects_v2(Bucket=self._bucket, Prefix=below).get("Contents", [])
        keys = [one["Key"] for one in found if not one["Key"].endswith("/")]
        return {key: self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read() for key in keys}

    def lines(self, below: str = "") -> list[str]:
        return [line for content in self.objects(below).values() for line in content.decode().splitlines()]

    def written(self) -> list[str]:
        """The names of all objects that were ever written, each as often as it was."""
        found = self._client.list_object_versions(Bucket=self._bucket)
        return [one["Key"] for one in found.get("Versions", []) if not one["Key"].endswith("/")]

    def uploads(self) -> list[Any]:
        """Those that have not been completed or aborted."""
        return list(self._client.list_multipart_uploads(Bucket=self._bucket).get("Uploads", []))


@pytest.fixture
def store(bucket: str) -> Store:
    return Store(bucket)


def test_conformance(bucket: str, store: Store) -> None:
    """Readers of the bucket would see records twice, half an object, or nothing."""
    targets: list[str] = []

    def make_sink() -> FileSink:
        targets.append(str(len(targets)))
        return lines_below(f"{bucket}/{targets[-1]}").build()

    check_sink(make_sink, lambda: store.lines(f"{targets[-1]}/"), [f"record {n}" for n in range(5)])
    assert len(store.written()) == len(set(store.written())) == len(store.objects()), "each is written once, not moved"
    assert store.uploads() == []


def test_an_object_goes_on_over_checkpoints_and_a_restart(bucket: str, store: Store) -> None:
    """Each checkpoint would make an object of its own, or a restart would lose what was uploaded or not yet."""
    sink = lines_below(f"{bucket}/out").build()
    writer = sink.create_writer(SimpleSinkContext())
    for number in range(3):
        for _ in range(_LINES_OF_A_PART // 2 + 1):
            writer.write(_LINE, None)
        writer.write(f"checkpoint {number}", None)
        committables, items = checkpointed(writer, number)
        assert committables == []
    assert [len(item.file.parts) for item in items] == [1] and store.objects() == {}
    # Later writes, which are prepared for a checkpoint that fails, do not count.
    writer.write("lost", None)
    sink.create_committer().abort(all_prepared(writer))
    writer.close()
    successor = sink.restore_writer(SimpleSinkContext(attempt="attempt-2"), items)
    successor.write("after", None)
    committables = all_prepared(successor)
    for _ in range(2):
        sink.create_committer().commit_again(committables)
    lines = [line for line in store.lines() if line != _LINE]
    assert sorted(lines) == ["after", "checkpoint 0", "checkpoint 1", "checkpoint 2"]
    assert len(store.lines()) == 3 * (_LINES_OF_A_PART // 2 + 1) + 4
    assert len(store.written()) == 2 and store.uploads() == []


def test_a_compressed_object_goes_on_over_a_restart(bucket: str, store: Store) -> None:
    """A part ends where a member does: otherwise an object of parts uploaded before a failure would be unreadable."""
    sink = lines_below(f"{bucket}/out").with_compression("zstd").build()
    writer, random = sink.create_writer(SimpleSinkContext()), Random(1)
    lines = [random.randbytes(50_000).hex() for _ in range(2 * _LINES_OF_A_PART)]
    writer.write_chunk(lines, None)
    committables, items = checkpointed(writer)
    assert committables == [] and items[0].file.parts, "nothing was uploaded yet"
    writer.write("lost", None)
    writer.close()
    successor = sink.restore_writer(SimpleSinkContext(attempt="attempt-2"), items)
    successor.write("after", None)
    sink.create_committer().commit(all_prepared(successor))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"{bucket}/out").build()
    assert sorted(read_all(source, 1)) == sorted([*lines, "after"])
    assert len(store.objects()) == 2 and store.uploads() == []


def test_a_small_object_goes_on_within_the_checkpoint(bucket: str, store: Store) -> None:
    """A part has 5 MiB: what is less would be lost with the worker."""
    sink = lines_below(f"{bucket}/out").build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write("a", None)
    _, items = checkpointed(writer)
    writer.write("lost", None)
    writer.close()
    assert store.uploads() == []
    successor = sink.restore_writer(SimpleSinkContext(attempt="attempt-2"), items)
    successor.write("b", None)
    sink.create_committer().commit(all_prepared(successor))
    assert store.lines() == ["a", "b"] and len(store.written()) == 1


def test_a_writer_that_was_taken_for_dead_changes_nothing(bucket: str, store: Store) -> None:
    """A worker that was stopped for a minute would upload into the object of its successor, or abort it."""
    sink = lines_below(f"{bucket}/out").build()
    stopped = sink.create_writer(SimpleSinkContext())
    stopped.write_chunk([_LINE] * _LINES_OF_A_PART, None)
    stopped.write("a", None)
    _, items = checkpointed(stopped)
    successor = sink.restore_writer(SimpleSinkContext(attempt="attempt-2"), items)
    stopped.write_chunk(["late", *[_LINE] * _LINES_OF_A_PART], None)
    stopped.close()
    successor.write("b", None)
    sink.create_committer().commit(all_prepared(successor))
    assert [line for line in store.lines() if line != _LINE] == ["a", "b"]
    assert len(store.lines()) == _LINES_OF_A_PART + 2


def test_what_is_aborted_is_removed(bucket: str, store: Store) -> None:
    """The parts of failed attempts would be kept, and paid for, for ever."""
    sink = lines_below(f"{bucket}/out").build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write("a", None)
    prepared = all_prepared(writer)
    assert len(store.uploads()) == 1
    sink.create_committer().abort(prepared)
    assert store.uploads() == [] and store.objects() == {}


def test_small_objects_are_compacted_into_one(bucket: str, store: Store) -> None:
    """A bucket would fill with small objects."""
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(9).build()
    builder = lines_below(f"{bucket}/out").with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    sink = builder.enable_compact(strategy, FileCompactor.concat_file_compactor()).build()
    writer = sink.create_writer(SimpleSinkContext())
    for number in range(3):
        writer.write(number, None)
        _, items = checkpointed(writer, number)
    writer = sink.restore_writer(SimpleSinkContext(attempt="attempt-2"), items)
    sink.create_committer().commit(all_prepared(writer))
    ((name, content),) = store.objects().items()
    assert name.startswith("out/compacted-part-") and content == b"0\n1\n2\n"
    assert store.written().count(name) == 1


def test_parquet(bucket: str, store: Store, tmp_path: Path) -> None:
    """Bulk formats write their footer when the upload is nearly over."""
    factory = ParquetBulkWriters.for_records(pa.schema([("n", pa.int64())]), row_group_records=10)
    builder = FileSink.for_bulk_format(f"{bucket}/out", factory)
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write_chunk([{"n": n} for n in range(25)], None)
    committables, items = checkpointed(writer)
    sink.create_committer().commit(committables)
    (content,) = store.objects().values()
    assert items == [] and pq.read_table(pa.BufferReader(content)).column("n").to_pylist() == list(range(25))


def test_a_bucket_that_is_not_there_is_refused_before_a_job_starts(
    bucket: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks would fail by it, minutes later on a cluster, and restart."""
    lines_below(f"{bucket}/out").build().validate()
    with pytest.raises(ProgramError, match=r"cannot write to s3://\S+-other/out: the bucket \S+-other does not exist"):
        lines_below(f"{bucket}-other/out").build().validate()
    assert not caplog.text
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    lines_below(f"{bucket}/out").build().validate()
    assert "pip install 'penstock-streams[s3]'" in caplog.text


def test_without_boto3_each_checkpoint_makes_an_object(
    bucket: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job without the extra could not write there."""
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    sink = lines_below(f"{bucket}/out").build()
    writer = sink.create_writer(SimpleSinkContext())
    for number in range(2):
        writer.write(number, None)
        committables, items = checkpointed(writer, number)
        sink.create_committer().commit(committables)
        assert items == []
    assert sorted(store.lines()) == ["0", "1"]


def test_a_bucket_is_watched(bucket: str, store: Store) -> None:
    """Objects that come later would be read twice, or only after a restart."""
    client = boto3.client("s3")
    name = bucket.removeprefix("s3://")
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"{bucket}/in")
    source = builder.monitor_continuously(Duration.of_seconds(1)).build()
    source.validate()
    run = SourceInTest(source, 2)
    # There is no such directory before its first object.
    run.enumerator.discover()
    with pytest.raises(SourceError, match="does not exist"):
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"{bucket}-other/in").monitor_continuously(
            Duration.of_seconds(1)
        ).build().validate()
    for number in range(3):
        client.put_object(
            Bucket=name, Key=f"in/{number}/lines.gz", Body=gzip.compress(b"%d a\n%d b\n" % (number, number))
        )
        run.enumerator.discover()
        assert run.values(2) == [f"{number} a", f"{number} b"]
        run.enumerator.discover()
        # As after a failure: what was discovered is not read again.
        state = run.snapshot()
        run.close()
        run = SourceInTest(source, 2, state)
    run.close()


def test_a_job_that_starts_from_a_checkpoint_of_one_that_runs_on_is_told_by_that_one(bucket: str) -> None:
    """It completes the upload that the other one still writes to: what came after the checkpoint was missing."""
    sink = lines_below(f"{bucket}/out").build()
    runs_on = sink.create_writer(SimpleSinkContext(job_id="a"))
    runs_on.write_chunk(["1", *[_LINE] * _LINES_OF_A_PART], None)
    _, items = checkpointed(runs_on, 1)
    runs_on.write_chunk(["2", *[_LINE] * _LINES_OF_A_PART], None)
    fork = sink.restore_writer(SimpleSinkContext(job_id="b", is_restored=True), items)
    sink.create_committer().commit(all_prepared(fork))

    with pytest.raises(JobError, match=r"completed with 1 of its 2 parts.*start it from a savepoint"):
        sink.create_committer().commit(all_prepared(runs_on))
    runs_on.close()
    fork.close()


def test_a_savepoint_behind_which_its_job_has_gone_back_says_so(bucket: str) -> None:
    """The upload was completed as of the earlier checkpoint: later parts that the savepoint names were missing."""
    sink = lines_below(f"{bucket}/out").build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write_chunk(["1", *[_LINE] * _LINES_OF_A_PART], None)
    _, items = checkpointed(writer, 1)
    writer.write_chunk(["2", "3"], None)
    writer.prepare_savepoint()
    savepoint = all_prepared(writer)
    writer.close()
    successor = sink.restore_writer(SimpleSinkContext(attempt="job-1-1-x", is_restored=True), items)
    successor.write("2", None)
    checkpoint = all_prepared(successor)
    sink.create_committer().commit(checkpoint)
    successor.close()

    with pytest.raises(JobError, match="failed after this savepoint"):
        sink.create_committer().commit_again(savepoint)
    sink.create_committer().commit_again(checkpoint)
