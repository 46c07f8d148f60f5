"""Text, JSON lines and Parquet through FileSource."""

import gzip
import lzma
import zlib
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.api.source import END_OF_INPUT
from penstock.common.errors import SourceError
from penstock.common.types import Row
from penstock.connectors.files.formats.avro_format import AvroFormat
from penstock.connectors.files.formats.compression import CODECS
from penstock.connectors.files.formats.orc_format import OrcFormat
from penstock.connectors.files.source import BulkFormat, FileSource, StreamFormat, UnreadableLine
from penstock.connectors.files.split import FileSplit
from penstock.engine.runtime.task.metrics import OperatorCounters, OperatorMetricGroup
from penstock.testing.conformance.source import check_source, read_all

TEXT = StreamFormat.text_line_format()
LINES = ["first", "", "a line much longer than a split or a block of the smallest size", "ünïcödé 漢字", "last"]
READ = [*(codec[:2] for codec in CODECS.values()), (".deflate", zlib.compress)]
quick = settings(max_examples=25)


@dataclass
class Flight:
    origin: str
    delay: int | None = None


class Subtask:
    """The context of a reader."""

    def __init__(self) -> None:
        self.counters = OperatorCounters("source")
        self.metric_group = OperatorMetricGroup(self.counters)

    def request_split(self) -> None:
        pass


def text_source(path, split_bytes=64, text_format=TEXT):
    return FileSource.for_record_stream_format(text_format, path).set_split_size(split_bytes).build()


def parquet_source(path, split_bytes=1000, **options):
    parquet_format = BulkFormat.parquet_format(**options)
    return FileSource.for_bulk_file_format(parquet_format, path).set_split_size(split_bytes).build()


def test_formats_are_of_the_kind_that_makes_them() -> None:
    """A program that checks what it is given would refuse penstock's own formats."""
    stream_formats = [TEXT, StreamFormat.json_lines_format(), StreamFormat.csv_format()]

    assert all(isinstance(each, StreamFormat) and not isinstance(each, BulkFormat) for each in stream_formats)
    assert isinstance(BulkFormat.parquet_format(), BulkFormat)
    assert not isinstance(BulkFormat.parquet_format(), StreamFormat)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last_end", [True, False])
@pytest.mark.parametrize("split_bytes", [1, 2, 3, 7, 50, 1000])
def test_text_at_every_split_size(tmp_path, end, last_end, split_bytes):
    """Lines at the border of two splits would be lost, duplicated or cut."""
    path = tmp_path / "lines.txt"
    path.write_bytes((end.join(LINES) + (end if last_end else "")).encode())
    assert read_all(text_source(path, split_bytes), 1) == LINES
    if split_bytes in (3, 50):
        check_source(lambda: text_source(path, split_bytes), parallelisms=(1, 2, 4), max_records=2)


@quick
@given(
    lines=st.lists(
        st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=6), max_size=30
    ),
    split_bytes=st.integers(1, 20),
)
def test_any_text_comes_back(tmp_path, lines, split_bytes):
    """Lines would break at a four-byte character on a border, or at a line separator other than LF."""
    path = tmp_path / "any.txt"
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    if lines:
        lines[0] = lines[0].removeprefix("\ufeff")  # a byte order mark
    assert read_all(text_source(path, split_bytes), 1) == lines
    assert sorted(read_all(text_source(path, split_bytes), 3)) == sorted(lines)


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "utf-32", "latin-1", "shift_jis", "cp037", "utf-8-sig"])
def test_charsets(tmp_path, charset):
    """Text of other systems would be garbled or unreadable."""
    lines = ["Tokyo", "", "x" * 70, "end"]
    path = tmp_path / "lines.txt"
    path.write_bytes("\n".join(lines).encode(charset))
    check_source(lambda: text_source(path, 5, StreamFormat.text_line_format(charset)), parallelisms=(2,))
    assert read_all(text_source(path, 5, StreamFormat.text_line_format(charset)), 1) == lines


@pytest.mark.parametrize("charset", ["iso2022_kr", "ISO-2022-JP", "hz", "utf-7"])
def test_charsets_whose_lines_depend_on_what_was_before(tmp_path, charset):
    """Each line but the first would be other characters: what shifts to them is at the beginning of the file."""
    lines = ["한국" if "kr" in charset else "中国", "ascii", "글" if "kr" in charset else "文"] * 5
    path = tmp_path / "lines.txt"
    path.write_bytes("\n".join(lines).encode(charset))
    check_source(lambda: text_source(path, 5, StreamFormat.text_line_format(charset)), parallelisms=(2,))
    assert read_all(text_source(path, 5, StreamFormat.text_line_format(charset)), 1) == lines


@pytest.mark.parametrize(("suffix", "compress"), READ)
def test_compressed_files(tmp_path, suffix, compress):
    """A restart in the middle of a compressed log would continue at the wrong position."""
    path = tmp_path / f"lines.txt{suffix}"
    path.write_bytes(compress("\n".join(LINES * 3).encode()))
    check_source(lambda: text_source(path, 10), parallelisms=(1, 3))


def test_a_gzip_file_of_two_members(tmp_path):
    """Half of a file made by `cat a.gz b.gz` would be lost silently."""
    path = tmp_path / "two.gz"
    path.write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    assert read_all(text_source(path), 1) == ["one", "two"]


@pytest.mark.parametrize(("suffix", "compress"), READ)
def test_a_damaged_archive_is_named(tmp_path, suffix, compress):
    """The end of a truncated download would be treated as the end of the data."""
    path = tmp_path / f"broken{suffix}"
    data = compress("\n".join(map(str, range(2000))).encode())
    damages = [data[:-12]]
    if suffix in (".gz", ".bz2", ".xz", ".deflate"):
        # What has no checksum can't tell, as a file without a codec can't.
        damages.append(data[:20] + b"????" + data[24:])
    for damaged in damages:
        path.write_bytes(damaged)
        with pytest.raises(SourceError, match="broken"):
            read_all(text_source(path), 1)


def test_streams_of_xz(tmp_path):
    """A wrong bit in the header of the second stream would silently end the file there."""
    path = tmp_path / "two.xz"
    one, two = (lzma.compress("".join(f"{n}{at}\n" for n in range(30_000)).encode()) for at in "ab")
    for padding in (b"", bytes(4), bytes(128 * 1024)):
        path.write_bytes(one + padding + two + padding)
        assert read_all(text_source(path, 1000), 1) == [f"{n}{at}" for at in "ab" for n in range(30_000)]
    wrong = bytes([two[0] ^ 1]) + two[1:]
    for damaged in (one + wrong, one + b"garbage", one + bytes(3), one + bytes(3) + two, one + two[:-9], one + two[:5]):
        path.write_bytes(damaged)
        with pytest.raises(SourceError, match=r"two\.xz"):
            read_all(text_source(path), 1)


def test_a_deflate_file_is_read_to_its_end(tmp_path):
    """A file of Java's DeflaterOutputStream was read as text: not at all in UTF-8, as garbage in other charsets."""
    path = tmp_path / "two.deflate"
    one, two = (zlib.compress("".join(f"{n}{at}\n" for n in range(30_000)).encode()) for at in "ab")
    path.write_bytes(one + two)
    assert read_all(text_source(path, 1000), 1) == [f"{n}{at}" for at in "ab" for n in range(30_000)]
    for damaged in (one + b"garbage", one + two[:-1], one + two[:5], one[:-1], b"plain text"):
        path.write_bytes(damaged)
        with pytest.raises(SourceError, match=r"two\.deflate"):
            read_all(text_source(path), 1)


def test_bytes_that_are_no_text_are_named(tmp_path):
    """A wrong charset would be noticed in the results only."""
    path = tmp_path / "latin.txt"
    path.write_bytes("ok\ncaf\u00e9\n".encode("latin-1"))
    with pytest.raises(SourceError, match=r"latin\.txt, line 2 \(byte 3\): this is not utf-8 text"):
        read_all(text_source(path), 1)


def test_a_line_longer_than_a_block(tmp_path):
    """A line of a megabyte would be read in pieces."""
    path = tmp_path / "long.txt"
    path.write_text("a" * 1_000_000 + "\nb\n")
    assert read_all(text_source(path, 1000), 2) == ["a" * 1_000_000, "b"]


def test_json_lines(tmp_path):
    """Blank lines, CR LF, or a split within a record would break reading."""
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf{"n": 1}\r\n\r\n  \n{"n": 2, "s": "\xc3\xa9\\n"}\n[3]\nnull')
    source = lambda: text_source(path, 9, StreamFormat.json_lines_format())  # noqa: E731
    assert read_all(source(), 1) == [{"n": 1}, {"n": 2, "s": "é\n"}, [3], None]
    check_source(source, max_records=1)


@pytest.mark.parametrize(
    ("line", "words"),
    [(b'{"n": 3', "truncated"), (b"1 2", "trailing"), (b'"\xff"', "(?i:utf-8)"), (b"NaN", "malformed")],
)
def test_a_line_that_is_not_json_is_named(tmp_path, line, words):
    """The bad line among a million could not be found."""
    path = tmp_path / "bad.json"
    path.write_bytes(b'{"n": 1}\n{"n": 2}\n' + line + b"\n4\n")
    json_lines = StreamFormat.json_lines_format()
    with pytest.raises(SourceError, match=rf"bad\.json, line 3 \(byte 18\): this is not JSON: .*{words}"):
        read_all(text_source(path, 5, json_lines), 1)


def test_lines_that_are_not_json_may_be_skipped(tmp_path):
    """A damaged line would stop the job, or skipping it would lose adjacent lines or a position."""
    path = tmp_path / "bad.json"
    path.write_bytes(b"1\n{\n2\n}\n\n3\n4 5\n6\n")
    lenient = StreamFormat.json_lines_format(on_error="skip")
    assert read_all(text_source(path, 1000, lenient), 1) == [1, 2, 3, 6]
    check_source(lambda: text_source(path, 4, lenient), max_records=1)

    subtask = Subtask()
    reader = text_source(path, 1000, lenient).create_reader(subtask)
    reader.add_splits([FileSplit(str(path), 0, None, 0)])
    reader.no_more_splits()
    while reader.poll(10) is not END_OF_INPUT:
        pass
    subtask.metric_group.collect()
    assert subtask.counters.user["numRecordsInErrors"] == 3


def test_lines_that_are_not_json_may_be_emitted(tmp_path):
    """Users could not repair skipped lines and read them later, or emitting them would move a position."""
    path = tmp_path / "bad.json"
    path.write_bytes(b"1\n{\n2\n\n4 5\n6\n")
    emitting = StreamFormat.json_lines_format(on_error="emit")

    first, bad, *others = read_all(text_source(path, 1000, emitting), 1)

    assert (first, type(bad), bad.path, bad.byte, bad.line) == (1, UnreadableLine, str(path), 2, b"{")
    assert bad.error.startswith("this is not JSON")
    assert [other.line if isinstance(other, UnreadableLine) else other for other in others] == [2, b"4 5", 6]
    check_source(lambda: text_source(path, 4, emitting), max_records=1)


def test_json_lines_of_a_type(tmp_path):
    """A record without a required field would fail much later, without its line number."""
    path = tmp_path / "flights.json"
    path.write_text('{"origin": "JFK", "delay": 5}\n{"origin": "EWR"}\n')
    typed = StreamFormat.json_lines_format(Flight)
    assert read_all(text_source(path, 1000, typed), 1) == [Flight("JFK", 5), Flight("EWR")]
    path.write_text('{"origin": 7}\n')
    with pytest.raises(SourceError, match=r"line 1 .*does not have the expected type"):
        read_all(text_source(path, 1000, typed), 1)


def test_a_json_array_is_refused_before_it_runs(tmp_path):
    """A JSON array over several lines would fail on `[`, without an explanation."""
    path = tmp_path / "array.json"
    path.write_text('[\n{"n": 1},\n{"n": 2}\n]\n')
    with pytest.raises(SourceError, match="JSON array"):
        text_source(path, 1000, StreamFormat.json_lines_format()).validate()


def write_parquet(path, rows=50, group=7):
    table = pa.table(
        {
            "n": list(range(rows)),
            "maybe": [None if i % 3 == 0 else i for i in range(rows)],
            "x": [i / 2 for i in range(rows)],
            "s": [None if i % 5 == 0 else f"sé{i}" for i in range(rows)],
            "ok": [i % 2 == 0 for i in range(rows)],
            "money": [Decimal(i) / 4 for i in range(rows)],
            "at": pa.array([datetime(2013, 1, 1, 5, i) for i in range(rows)], pa.timestamp("us")),
            "list": [[i, i + 1] for i in range(rows)],
            "u.v": [{"w": i} for i in range(rows)],
        }
    )
    pq.write_table(table, path, row_group_size=group)
    return table.to_pylist()


def test_parquet(tmp_path):
    """Row groups at a border would be read twice or not at all; values would change their types."""
    rows = write_parquet(tmp_path / "a.parquet")
    for split_bytes in (100, 1000, 10**6):
        assert read_all(parquet_source(tmp_path, split_bytes, batch_records=3), 1) == rows
    check_source(lambda: parquet_source(tmp_path, 1000, batch_records=5), parallelisms=(1, 3), max_records=4)
    first = read_all(parquet_source(tmp_path), 1)[1]
    assert [type(value) for value in first.values()] == [int, int, float, str, bool, Decimal, datetime, list, dict]


def test_parquet_columns(tmp_path):
    """Reading 19 columns to use two would cost ten times as much."""
    write_parquet(tmp_path / "a.parquet", rows=2)
    assert read_all(parquet_source(tmp_path, columns=["s", "n"]), 1) == [{"s": None, "n": 0}, {"s": "sé1", "n": 1}]
    assert read_all(parquet_source(tmp_path, columns=["n"], as_row=True), 1) == [Row(n=0), Row(n=1)]
    with pytest.raises(SourceError, match="lacks the column m: its columns are n, maybe"):
        parquet_source(tmp_path, columns=["n", "m"]).validate()


def test_times_that_spark_writes(tmp_path):
    """Spark's tables have times in a form of their own, which nanoseconds can't hold: the year 9999 would be 1816."""
    path, moment = tmp_path / "spark.parquet", datetime(9999, 12, 31, 23, 59, 59, 999_999)
    times = pa.table({"at": pa.array([moment, None], pa.timestamp("us"))})
    pq.write_table(times, path, use_deprecated_int96_timestamps=True)
    source = FileSource.for_bulk_file_format(BulkFormat.parquet_format(), path).build()
    assert read_all(source, 1) == [{"at": moment}, {"at": None}]


def test_a_day_that_python_does_not_have_is_named(tmp_path):
    """The message would be of pyarrow's lines, and not of the column whose values are to be looked at."""
    path = tmp_path / "days.parquet"
    pq.write_table(pa.table({"good": [1], "day": pa.array([2_932_897], pa.date32())}), path)
    with pytest.raises(SourceError, match=r"column .day. .*Python cannot represent the value"):
        read_all(parquet_source(path), 1)


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_moments_from_the_first_to_the_last(tmp_path, unit):
    """Those that are read fast would be other ones, or numbers, at the ends of what Python has."""
    path, first, last = tmp_path / "moments.parquet", datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)
    for moments in ([first, last], [first, None, last]):
        table = pa.table({"at": pa.array(moments, pa.timestamp(unit))})
        pq.write_table(table, path, coerce_timestamps=None)
        assert [row["at"] for row in read_all(parquet_source(path), 1)] == moments
    for days in (-719_163, 2_932_897):
        pq.write_table(pa.table({"day": pa.array([0, days], pa.int32()).cast(pa.date32())}), path)
        with pytest.raises(SourceError, match=r"column .day. .*Python cannot represent the value"):
            read_all(parquet_source(path), 1)


def test_columns_of_any_name(tmp_path):
    """Records are made by code with these names in it: a quote would end the job, or run as a program."""
    path, names = tmp_path / "names.parquet", ["", "'", '"', "\\", "a\nb", "{x}", "import os", "größe", "value0"]
    pq.write_table(pa.table({name: [index] for index, name in enumerate(names)}), path)
    assert read_all(parquet_source(path), 1) == [dict(zip(names, range(len(names)), strict=True))]


def test_columns_that_numpy_names(tmp_path):
    """Columns that come from a NumPy array, as a table's names may, would fail the job with a NameError."""
    path = tmp_path / "named.parquet"
    pq.write_table(pa.table({"a": [1], "b": [2]}), path)
    assert read_all(parquet_source(path, columns=list(np.array(["b", "a"]))), 1) == [{"b": 2, "a": 1}]


def test_what_is_no_parquet_is_refused_before_it_runs(tmp_path):
    """The job would start, and fail in every task."""
    (tmp_path / "a.parquet").write_text("PAR? no, text")
    with pytest.raises(SourceError, match=r"a\.parquet is not a Parquet file"):
        parquet_source(tmp_path).validate()


def test_a_file_that_vanishes_is_named(tmp_path):
    """A file removed between listing and reading would look like an empty one."""
    (tmp_path / "a.txt").write_text("a\n")
    source = text_source(tmp_path)
    reader = source.create_reader(Subtask())
    reader.no_more_splits()
    reader.add_splits([FileSplit(str(tmp_path / "b.txt"), 0, None, 0)])
    with pytest.raises(SourceError, match=r"b\.txt was deleted"):
        reader.poll(10)


def test_wrong_formats_are_refused():
    """A bulk format given as a stream format would fail on the first file."""
    with pytest.raises(TypeError, match="expected a StreamFormat"):
        FileSource.for_record_stream_format(BulkFormat.parquet_format(), "x")
    with pytest.raises(TypeError, match="expected a BulkFormat"):
        FileSource.for_bulk_file_format(TEXT, "x")
    with pytest.raises(ValueError, match="at least one path"):
        FileSource.for_record_stream_format(TEXT)
    with pytest.raises(ValueError, match="unknown charset 'klingon'"):
        StreamFormat.text_line_format("klingon")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_that_was_cut_before_the_position_of_a_checkpoint_is_an_error(tmp_path, suffix):
    """The records after it would be missing, although the job seems to have read all."""
    path = tmp_path / f"lines.txt{suffix}"
    packed = gzip.compress if suffix else bytes
    path.write_bytes(packed(b"line\n" * 10))
    read = StreamFormat.text_line_format().read
    assert [value for chunk in read(FileSplit(str(path), 0, None, 50), int) for value in chunk.values] == []
    path.write_bytes(packed(b"line\n" * 5))
    with pytest.raises(SourceError, match=r"has 25 bytes, expected at least 49: it was truncated or replaced"):
        list(read(FileSplit(str(path), 0, None, 50), int))


def test_a_file_of_lines_that_lacks_records_that_were_read_of_it_is_an_error(tmp_path):
    """Small files are at their first byte in a checkpoint, with records to skip: the rest would be missing, unsaid."""
    path = tmp_path / "lines.txt"
    path.write_bytes(b"line\n" * 5)
    read = StreamFormat.text_line_format().read
    with pytest.raises(SourceError, match=r"has 3 records fewer than were read from it before: it was truncated"):
        list(read(FileSplit(str(path), 0, None, 0, skip=8), int))
    with pytest.raises(SourceError, match=r"has 25 bytes, expected at least 50: it was truncated"):
        list(read(FileSplit(str(path), 0, 50, 0), int))
    whole = [value for chunk in read(FileSplit(str(path), 0, 25, 0, skip=5), int) for value in chunk.values]
    assert whole == []


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_a_file_of_columns_that_lacks_records_that_were_read_of_it_is_an_error(tmp_path, kind):
    """A source that continues in a replaced file would end silently, without its records."""
    path = tmp_path / f"rows.{kind}"
    table = pa.table({"a": [1, 2, 3]})
    if kind == "avro":
        schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
        with path.open("wb") as file:
            fastavro.writer(file, schema, table.to_pylist())
    else:
        (pq if kind == "parquet" else orc).write_table(table, path)
    made = {"parquet": BulkFormat.parquet_format, "orc": OrcFormat, "avro": AvroFormat}[kind]()
    split = FileSplit(str(path), 0, None if kind == "avro" else path.stat().st_size, 0)
    assert [row["a"] for chunk in made.read(split.skipping(2), int) for row in chunk.values] == [3]
    with pytest.raises(SourceError, match=r"has 2 records fewer than were read from it before: it was truncated"):
        list(made.read(split.skipping(5), int))


def test_a_file_of_columns_of_which_two_have_one_name(tmp_path):
    """A bare KeyError says neither in which file nor why."""
    path = tmp_path / "two.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    with pytest.raises(SourceError, match=rf"{path} has duplicate columns: a"):
        read_all(parquet_source(path), 1)
