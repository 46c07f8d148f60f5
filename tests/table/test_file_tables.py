"""Tables of files: what is written in each format is read again; partitions, their commit, and bad lines."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.connectors.driven import SourceInTest
from tests.table.test_formats import SINGLE, drawn

from penstock.api.sink import Committer, Sink, SinkWriter
from penstock.common.errors import SourceError
from penstock.table.connectors.filesystem import FilesystemConnector
from penstock.table.connectors.table_connector import METADATA, ScanRequest, SinkRequest, physical_columns
from penstock.table.logical_types import LogicalType, parse
from penstock.table.operators.table_columns import table_columns
from penstock.table.planner.data_types import DataType
from penstock.table.planner.errors import SqlError
from penstock.table.planner.nodes.tables import ContextResolvedTable, ResolvedTable, TableColumn, TableSchema
from penstock.testing.conformance.sink import SimpleSinkContext

TYPES = {
    "flag": "BOOLEAN", "tiny": "TINYINT", "number": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "text": "STRING", "price": "DECIMAL(10, 2)", "day": "DATE", "clock": "TIME(0)", "moment": "TIMESTAMP(3)",
    "blob": "BYTES",
}  # fmt: skip
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def table_of(columns: Mapping[str, str], options: Mapping[str, Any], partitions: Sequence[str] = ()) -> Any:
    """Return a table as plans have it."""
    schema = TableSchema(columns=tuple(TableColumn(name=n, data_type=DataType(parse(t))) for n, t in columns.items()))
    given = {"connector": "filesystem", **{key: str(value) for key, value in options.items()}}
    resolved = ResolvedTable(schema=schema, partition_keys=tuple(partitions), options=given)
    return ContextResolvedTable(identifier="`t`", resolved_table=resolved)


def sink_of(table: ContextResolvedTable) -> Sink[Any]:
    """Return the sink of a table, as tasks get it."""
    assert table.resolved_table is not None
    columns = table.resolved_table.schema.columns
    types = tuple(one.data_type.logical for one in columns if one.data_type is not None)
    row = LogicalType("ROW", names=tuple(one.name for one in columns), children=types)
    found = FilesystemConnector().sink(SinkRequest(table, table_columns(row), row_type=row, kinds=("INSERT",)))
    assert found.sink is not None and found.sink.takes_columns(table_columns(row))
    copy: Sink[Any] = pickle.loads(pickle.dumps(found.sink))
    return copy


def committer_of(sink: Sink[Any]) -> Committer:
    committer = sink.create_committer()
    assert committer is not None
    return committer


def write(table: ContextResolvedTable, *batches: pa.RecordBatch) -> None:
    """Write batches to the end, by one subtask."""
    sink = sink_of(table)
    writer = sink.create_writer(SimpleSinkContext())
    for batch in batches:
        writer.write_columns(batch)
    writer.flush(True)
    committer_of(sink).commit(writer.prepare_commit())
    writer.close()


def read(table: ContextResolvedTable, names: Sequence[str] = (), metadata: Mapping[str, Any] | None = None) -> Any:
    """Return the rows of some columns, as dicts."""
    columns = [field for field in physical_columns(table) if not names or field.name in names]
    schema = pa.schema(columns)
    request = ScanRequest(table, schema, whole=schema, metadata=metadata or {})
    scan = FilesystemConnector().scan(request)
    chunks = SourceInTest(scan.source).read(max_records=7)
    return [row for chunk in chunks for row in (chunk.values.to_pylist() if len(chunk.values) else [])]


FORMATS: dict[str, dict[str, Any]] = {
    "json": {},
    "csv": {"csv.null-literal": "NULL"},
    "avro": {"avro.codec": "null"},
    "parquet": {"parquet.compression": "ZSTD"},
}


@pytest.mark.parametrize("partitions", [(), ("day", "text")])
@pytest.mark.parametrize("name", FORMATS)
def test_rows_come_back_from_files(name: str, partitions: tuple[str, ...], tmp_path: Path) -> None:
    """Columns of partitions are not in the files, and come from the names of folders."""
    columns = {column: SINGLE[column] for column in TYPES}
    columns["clock"] = (pa.time32("ms"), lambda random: 3_600_000)
    batch = drawn(Random(3), columns, 50)
    if partitions:
        # The empty text has the folder of NULL.
        texts = pa.array([text or None for text in batch.column("text").to_pylist()])
        batch = batch.set_column(batch.schema.get_field_index("text"), "text", texts)
    table = table_of(TYPES, {"path": tmp_path / "t", "format": name, **FORMATS[name]}, partitions)
    write(table, batch)
    assert sorted(map(str, read(table))) == sorted(map(str, batch.to_pylist()))
    some = read(table, ["number", "day"])
    assert sorted(map(str, some)) == sorted(map(str, batch.select(["number", "day"]).to_pylist()))
    folders = {path.parent.relative_to(tmp_path / "t").as_posix() for path in (tmp_path / "t").rglob("part-*")}
    assert all(folder.startswith("day=") for folder in folders) if partitions else folders == {"."}


def test_metadata_of_files(tmp_path: Path) -> None:
    """A user could not tell which file a row is from."""
    (tmp_path / "a.json").write_text('{"n": 1}\n')
    table = table_of({"n": "INT"}, {"path": tmp_path, "format": "json"})
    (row,) = read(table, metadata={"file.name": pa.string(), "file.size": pa.int64()})
    assert row == {"n": 1, f"{METADATA}file.name": "a.json", f"{METADATA}file.size": 9}


def test_files_whose_path_does_not_match_are_not_read(tmp_path: Path) -> None:
    """A folder may have files of another kind beside those of the table. The pattern is of the whole path."""
    (tmp_path / "day=1").mkdir()
    for name, number in (("day=1/a.json", 1), ("day=1/b.txt", 2), ("c.json", 3)):
        (tmp_path / name).write_text(f'{{"n": {number}}}\n')
    options = {"path": tmp_path, "format": "json", "source.report-statistics": "NONE"}
    table = table_of({"n": "INT"}, {**options, "source.path.regex-pattern": r".*/day=\p{Digit}/[^/]*\.json"})
    assert read(table) == [{"n": 1}]
    with pytest.raises(SqlError, match=r"source\.path\.regex-pattern is not a pattern"):
        read(table_of({"n": "INT"}, {**options, "source.path.regex-pattern": "(a"}))


def test_a_bad_line_is_named_or_left_out(tmp_path: Path) -> None:
    """Of a large file nobody would find the line."""
    (tmp_path / "a.json").write_text('{"n": 1}\n\n{"n": 2}\r\n{"n"\n{"n": 3}')
    table = table_of({"n": "INT"}, {"path": tmp_path, "format": "json"})
    with pytest.raises(SourceError, match=r"a\.json, line 4 .*cannot be read as JSON.*json\.ignore-parse-errors"):
        read(table)
    lenient = table_of({"n": "INT"}, {"path": tmp_path, "format": "json", "json.ignore-parse-errors": "true"})
    assert read(lenient) == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_quoted_values_may_have_line_breaks(tmp_path: Path) -> None:
    """A value with a line break would become two rows."""
    (tmp_path / "a.csv").write_text('1,"a\nb"\n2,"c ""d"""\n3,"e\n\n"\n')
    table = table_of({"n": "INT", "s": "STRING"}, {"path": tmp_path, "format": "csv"})
    assert [row["s"] for row in read(table)] == ["a\nb", 'c "d"', "e\n\n"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"format": "json"}, "'path' is required"),
        ({"path": "/x"}, "'format' is required"),
        ({"path": "/x", "format": "xml"}, "'xml' does not exist. Formats: avro, csv, json, raw, parquet"),
        ({"path": "/x", "format": "json", "csv.null-literal": "x"}, r"no option 'csv\.null-literal'"),
        ({"path": "/x", "format": "json", "sink.partition-commit.policy.kind": "success-file"}, "no partitions"),
        ({"path": "/x", "format": "parquet", "parquet.compression": "zip"}, "must be one of SNAPPY"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], reason: str) -> None:
    """A misspelled option would be ignored, and files written otherwise than the user thinks."""
    with pytest.raises(SqlError, match=reason):
        sink_of(table_of({"n": "INT"}, options))


def test_files_are_closed_by_size_and_age(tmp_path: Path) -> None:
    """Readers would wait for rows, or files would grow without bound."""
    options = {"path": tmp_path, "format": "csv", "sink.rolling-policy.file-size": "10 b"}
    options |= {"sink.rolling-policy.rollover-interval": "1 min", "sink.rolling-policy.inactivity-interval": "30 s"}
    sink, context = sink_of(table_of({"n": "INT"}, options)), SimpleSinkContext(0, 1)
    writer = sink.create_writer(context)

    def closed(clock_ms: int, *numbers: int) -> int:
        """Write rows, have the writer look at the time, and return how many files it closes."""
        context.clock_ms = clock_ms
        if numbers:
            writer.write_columns(pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int32())}))
        writer.on_wake(clock_ms)
        return len(writer.prepare_commit())

    assert closed(0, 1) == 0
    assert closed(20_000, 2) == 0
    assert closed(59_000) == 1, "inactivity"
    assert closed(60_000, 3) == 0
    for second in range(80, 120, 20):
        assert closed(second * 1000, 4) == 0
    assert closed(121_000) == 1, "age"
    assert closed(122_000, *range(1000, 1010)) == 5, "size: two rows in each"


def days(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int32()), "d": [f"1970-01-0{n}" for n in numbers]})


class Subtasks:
    """Two writers of a partitioned table, and its committer."""

    def __init__(self, path: Path, **options: str) -> None:
        given = {f"sink.partition-commit.{key.replace('_', '-')}": value for key, value in options.items()}
        given |= {"path": str(path), "format": "json", "sink.partition-commit.policy.kind": "success-file"}
        self.path = path
        self.is_by_time = options["trigger"] == "partition-time"
        self.sink = sink_of(table_of({"n": "INT", "d": "STRING"}, given, ["d"]))
        self.contexts = [SimpleSinkContext(subtask, 2) for subtask in range(2)]
        self.writers: list[SinkWriter[Any]] = [self.sink.create_writer(one) for one in self.contexts]

    def checkpoint(self, *times_ms: int) -> list[Any]:
        """Take a checkpoint at the watermark of each subtask, or its clock. Return what is to be committed."""
        found = []
        for context, writer, time_ms in zip(self.contexts, self.writers, times_ms, strict=True):
            # The other time would complete all partitions.
            context.watermark, context.clock_ms = (time_ms, 99 * DAY_MS) if self.is_by_time else (99 * DAY_MS, time_ms)
            writer.flush(False)
            found += writer.prepare_commit()
        return found

    def commit(self, committables: list[Any]) -> list[str]:
        """Commit a checkpoint, and return the partitions that are complete."""
        committer_of(self.sink).commit(committables)
        return sorted(file.parent.name for file in self.path.glob("*/_SUCCESS"))


def test_a_partition_is_complete_when_the_slowest_watermark_has_passed_it(tmp_path: Path) -> None:
    """A reader that waits for _SUCCESS would miss the rows of the slower subtask."""
    tasks = Subtasks(tmp_path / "t", trigger="partition-time", delay="1 d")
    tasks.writers[0].write_columns(days(1, 2))
    tasks.writers[1].write_columns(days(1))
    assert tasks.commit(tasks.checkpoint(2 * DAY_MS, HOUR_MS)) == []
    # The time has to be passed, as in Flink.
    assert tasks.commit(tasks.checkpoint(2 * DAY_MS, DAY_MS)) == []
    assert tasks.commit(tasks.checkpoint(2 * DAY_MS, DAY_MS + 1)) == ["d=1970-01-01"]
    # Its files are there as well.
    assert len(list((tmp_path / "t" / "d=1970-01-01").glob("part-*"))) == 2
    assert tasks.commit(tasks.checkpoint(3 * DAY_MS, 3 * DAY_MS)) == ["d=1970-01-01", "d=1970-01-02"]


def test_a_partition_whose_commit_is_lost_is_committed_after_a_restart(tmp_path: Path) -> None:
    """A reader would wait forever for a partition that was due when the job failed."""
    tasks = Subtasks(tmp_path / "t", trigger="partition-time")
    tasks.writers[0].write_columns(days(1))
    files = [one for one in tasks.checkpoint(DAY_MS, DAY_MS) if type(one).__name__ != "PartitionReport"]
    states = [pickle.loads(pickle.dumps(writer.snapshot_state(1))) for writer in tasks.writers]
    assert tasks.commit(files) == []
    tasks.writers = [tasks.sink.restore_writer(one, state) for one, state in zip(tasks.contexts, states, strict=True)]
    assert tasks.commit(tasks.checkpoint(DAY_MS, DAY_MS)) == ["d=1970-01-01"]


def test_by_the_clock_a_partition_is_complete_after_the_delay(tmp_path: Path) -> None:
    """A reader would miss rows that are written within the delay."""
    tasks = Subtasks(tmp_path / "t", trigger="process-time", delay="1 h")
    tasks.writers[0].write_columns(days(1))
    assert tasks.commit(tasks.checkpoint(HOUR_MS, HOUR_MS)) == []
    assert tasks.commit(tasks.checkpoint(HOUR_MS + 1, HOUR_MS + 1)) == ["d=1970-01-01"]


def test_a_partition_without_a_time_names_the_option(tmp_path: Path) -> None:
    """The user would not know how the time of a partition is read."""
    tasks = Subtasks(tmp_path / "t", trigger="partition-time")
    batch = pa.RecordBatch.from_pydict({"n": pa.array([1], pa.int32()), "d": ["monday"]})
    with pytest.raises(ValueError, match=r"'monday' is not like .*partition\.time-extractor\.timestamp-pattern"):
        tasks.writers[0].write_columns(batch)
