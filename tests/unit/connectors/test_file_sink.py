"""FileSink: names, buckets, rolling, commits."""

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.unit.connectors.file_sinks import all_prepared

from penstock.common.errors import DamagedCheckpointError, JobError, ProgramError
from penstock.common.serialization import Encoder
from penstock.connectors.files.sink import (
    BucketAssigner,
    FileSink,
    OutputFileConfig,
    PendingFile,
    RollingPolicy,
)
from penstock.connectors.files.sink.bucket import DateTimeBucketAssigner, strftime_pattern
from penstock.connectors.files.source.listing import list_files
from penstock.connectors.files.storage import resolve_below
from penstock.testing.conformance.sink import SimpleSinkContext, check_sink

MIDNIGHT = 1_356_998_400_000  # 2013-01-01T00:00Z


class ByAirport:
    def get_bucket_id(self, element, context):
        return f"airport={element['origin']}"


def builder(path):
    return FileSink.for_row_format(path, Encoder.json_encoder()).with_bucket_assigner(
        BucketAssigner.base_path_bucket_assigner()
    )


def visible(path):
    return [file.path for file in list_files([str(path)])] if path.exists() else []


def contents(path):
    return [json.loads(line) for name in visible(path) for line in Path(name).read_text().splitlines()]


@pytest.mark.parametrize("by_airport", [True, False])
@pytest.mark.parametrize("part_size", [1, 40, 10_000])
def test_conformance(tmp_path, by_airport, part_size):
    """Readers of the directory would see records twice, half a file, or nothing."""
    targets = []

    def make_sink():
        targets.append(tmp_path / str(len(targets)))
        made = builder(targets[-1]).with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=part_size))
        return (made.with_bucket_assigner(ByAirport()) if by_airport else made).build()

    records = [{"origin": origin, "n": n} for n in range(9) for origin in ("JFK", "EWR")]
    check_sink(make_sink, lambda: contents(targets[-1]), records)


def test_names(tmp_path):
    """Readers could not tell complete files from unfinished ones, nor attempts from each other."""
    names = OutputFileConfig.builder().with_part_prefix("delays").with_part_suffix(".json").build()
    sink = builder(tmp_path).with_output_file_config(names).build()
    writer = sink.create_writer(SimpleSinkContext(subtask=3, attempt="job/7#2"))
    writer.write(1, None)
    (hidden,) = tmp_path.iterdir()
    assert hidden.name.startswith(".delays-3-")
    assert hidden.name.endswith("-0.json.job-7-2.inprogress")
    sink.create_committer().commit(all_prepared(writer))
    (published,) = tmp_path.iterdir()
    assert published.name == hidden.name[1:].removesuffix(".job-7-2.inprogress")
    assert published.read_text() == "1\n"


def test_two_jobs_into_one_directory_do_not_overwrite_each_other(tmp_path):
    """Tomorrow's run would replace today's files, attempt for attempt."""
    for value in (1, 2):
        sink = builder(tmp_path).build()
        writer = sink.create_writer(SimpleSinkContext())
        writer.write(value, None)
        sink.create_committer().commit(all_prepared(writer))
    assert sorted(contents(tmp_path)) == [1, 2]


def test_rolling_by_size(tmp_path):
    """Files would grow without bound, or each hold one chunk."""
    sink = builder(tmp_path).with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=4)).build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write_chunk([1], None)
    writer.write_chunk([2, 3, 4, 5], None)
    sink.create_committer().commit(all_prepared(writer))
    assert [contents_of.read_text() for contents_of in sorted(tmp_path.iterdir())] == ["1\n2\n", "3\n4\n", "5\n"]


def test_rolling_by_time(tmp_path):
    """On a quiet stream a file would stay open, and its records invisible, until the next record arrives."""
    policy = RollingPolicy.default_rolling_policy(rollover_interval=1000, inactivity_interval=300)
    sink = builder(tmp_path).with_bucket_assigner(ByAirport()).with_rolling_policy(policy).build()
    context = SimpleSinkContext()
    writer = sink.create_writer(context)
    assert writer.wake_at_ms() is None
    writer.write_chunk([{"origin": "JFK"}, {"origin": "EWR"}], None)
    assert writer.wake_at_ms() == 300
    for context.clock_ms in (250, 500, 750, 999):
        writer.write_chunk([{"origin": "JFK"}], None)
    assert writer.wake_at_ms() == 300
    writer.on_wake(999)
    assert writer.wake_at_ms() == 1000
    writer.on_wake(999)
    writer.on_wake(1000)
    assert writer.wake_at_ms() is None
    assert len(all_prepared(writer)) == 2


def test_rolling_on_checkpoints_only(tmp_path):
    """A checkpoint would produce several files."""
    sink = builder(tmp_path).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write_chunk(list(range(1000)), None)
    assert writer.wake_at_ms() is None
    assert len(all_prepared(writer)) == 1


def test_buckets_by_time(tmp_path):
    """Records would be written to the hour of another time zone."""
    assigner = BucketAssigner.date_time_bucket_assigner("yyyy-MM-dd--HH", "America/New_York")
    sink = builder(tmp_path).with_bucket_assigner(assigner).build()
    context = SimpleSinkContext(clock_ms=MIDNIGHT)
    writer = sink.create_writer(context)
    writer.write(1, None)
    context.clock_ms += 3_600_000
    writer.write(2, None)
    sink.create_committer().commit(all_prepared(writer))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2012-12-31--19", "2012-12-31--20"]


def test_a_bucket_assigner_sees_time(tmp_path):
    """Buckets by event time would lack the timestamps of records."""
    seen = []

    class Spy:
        def get_bucket_id(self, element, context):
            seen.append((element, context.timestamp, context.current_processing_time, context.current_watermark))
            return ""

    context = SimpleSinkContext(clock_ms=7)
    context.watermark = 5
    writer = builder(tmp_path).with_bucket_assigner(Spy()).build().create_writer(context)
    writer.write_chunk(["a", "b"], [1, 2])
    assert seen == [("a", 1, 7, 5), ("b", 2, 7, 5)]


@pytest.mark.parametrize("bucket", ["../up", "/etc", "a//b", "a/../../b", "."])
def test_a_bucket_stays_below_the_base_path(tmp_path, bucket):
    """A bucket derived from a record's text could write anywhere."""

    class Hostile:
        def get_bucket_id(self, element, context):
            return bucket

    writer = builder(tmp_path / "out").with_bucket_assigner(Hostile()).build().create_writer(SimpleSinkContext())
    with pytest.raises(ValueError, match="relative path"):
        writer.write(1, None)


def test_java_date_patterns():
    """PyFlink programs with Java's date patterns would not run."""
    assert strftime_pattern("yyyy-MM-dd'T'HH/mm:ss''") == "%Y-%m-%dT%H/%M:%S'"
    assert DateTimeBucketAssigner("%Y", "UTC").get_bucket_id(1, _at(MIDNIGHT)) == "2013"
    with pytest.raises(ValueError, match="'QQ' are not supported"):
        BucketAssigner.date_time_bucket_assigner("yyyy-QQ")
    with pytest.raises(ValueError, match="unknown time zone 'Mars/Olympus'"):
        BucketAssigner.date_time_bucket_assigner(timezone_id="Mars/Olympus")


def _at(now_ms):
    from penstock.connectors.files.sink import BucketContext

    return BucketContext(None, now_ms, 0)


def test_a_pending_file_that_is_gone_is_told(tmp_path):
    """A commit of a missing file would lose records silently."""
    lost = PendingFile(str(tmp_path / ".a.inprogress"), str(tmp_path / "a"), 3)
    with pytest.raises(JobError, match="neither exists"):
        builder(tmp_path).build().create_committer().commit([lost])


def test_mistakes_are_refused_when_the_sink_is_made(tmp_path):
    """Mistakes would be found by the first record, in a worker."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ProgramError, match="got the file"):
        builder(tmp_path / "file").build().validate()
    with pytest.raises(ProgramError, match=f"cannot create {tmp_path}/file/below: {tmp_path}/file is a file"):
        builder(tmp_path / "file" / "below").build().validate()
    builder(tmp_path / "new" / "below").build().validate()
    assert not (tmp_path / "new").exists(), "a program that is only planned creates nothing"
    for uncalled in (Encoder.json_encoder, Encoder.simple_string_encoder):
        with pytest.raises(TypeError, match=r"expected an object of Encoder such as .* Call it: Encoder\.\w+\(\)$"):
            FileSink.for_row_format("out", uncalled)
    FileSink.for_row_format("out", bytes)
    with pytest.raises(TypeError, match="expected an Encoder"):
        FileSink.for_row_format(tmp_path, 5)
    with pytest.raises(TypeError, match="get_bucket_id"):
        builder(tmp_path).with_bucket_assigner("hour")
    with pytest.raises(ValueError, match="part_size must be above 0"):
        RollingPolicy.default_rolling_policy(part_size=0)
    with pytest.raises(ValueError, match="hidden"):
        OutputFileConfig("_part")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """The job would fail with its first record, after Spark's start, in a traceback of a library."""
    tmp_path.chmod(0o500)
    with pytest.raises(ProgramError, match=f"this user may not create files in {tmp_path}"):
        builder(tmp_path / "new").build().validate()


def test_a_string_encoder_and_a_plain_function(tmp_path):
    """Text files, the output of most first programs, could not be written."""
    for encoder in (Encoder.simple_string_encoder(), lambda value: f"{value}\n".encode()):
        sink = FileSink.for_row_format(tmp_path / "out", encoder).build()
        writer = sink.create_writer(SimpleSinkContext())
        writer.write_chunk(["a", 1], None)
        (pending,) = all_prepared(writer)
        assert Path(pending.pending_path).read_text() == "a\n1\n"


def test_a_file_that_its_reader_took_away_is_passed_over_after_a_recovery(tmp_path):
    """A job whose files are archived as they appear could never restart."""
    sink = builder(tmp_path).build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write_chunk([{"a": 1}], None)
    pending = all_prepared(writer)
    sink.create_committer().commit(pending)
    for path in visible(tmp_path):
        Path(path).unlink()
    sink.create_committer().commit_again(pending)
    with pytest.raises(JobError, match="neither exists"):
        sink.create_committer().commit(pending)


def test_a_file_whose_share_is_away_is_not_passed_over(tmp_path):
    """Output would be lost silently: a commit fails while the share is away, and the restart would take it for done."""
    out = tmp_path / "share" / "out"
    sink = builder(out).build()
    committer = sink.create_committer()
    writers = [sink.create_writer(SimpleSinkContext(attempt=f"attempt-{number}")) for number in (1, 2)]
    first, pending = ((writer.write_chunk([{"a": 1}], None), all_prepared(writer))[1] for writer in writers)
    committer.commit(first)
    share = out.parent.rename(tmp_path / "away")
    with pytest.raises(JobError, match="neither exists"):
        committer.commit(pending)
    for other in (committer, sink.create_committer()):
        with pytest.raises(JobError, match=f"directory {out} is not there"):
            other.commit_again(pending)
    with pytest.raises(OSError, match=f"directory {out} is not there"):
        writers[0].write_chunk([{"a": 1}], None)
    assert not out.exists(), "it was made again, in the way of the share"
    out.mkdir(parents=True)
    with pytest.raises(JobError, match=f"directory {out} is not there"):
        committer.commit_again(pending)
    shutil.rmtree(out.parent)
    share.rename(out.parent)
    committer.commit_again(pending)
    assert len(visible(out)) == 2


def test_a_file_of_which_a_part_was_lost_is_not_published(tmp_path):
    """After a power failure, rows would be missing without notice."""
    sink = builder(tmp_path).build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write_chunk([{"a": 1}], None)
    (pending,) = all_prepared(writer)
    Path(pending.pending_path).write_bytes(b"")
    with pytest.raises(DamagedCheckpointError, match="has 0 bytes"):
        sink.create_committer().commit_again([pending])
    assert not visible(tmp_path)


@pytest.mark.parametrize("bucket", ["a#1", "a?b", "100%25", "New York", "Zürich"])
def test_a_bucket_by_url_may_have_any_name(bucket):
    """Writer and committer would use different paths, and nothing could be committed."""
    _, path = resolve_below("mock:///out/", f"mock:///out/{bucket}/part-0")
    assert path.strip("/") == f"out/{bucket}/part-0"
    assert resolve_below("mock:///out", "mock:///elsewhere/part-0")[1].strip("/") == "elsewhere/part-0"
