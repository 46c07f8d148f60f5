"""Files of lines as other programs write them: ends of lines, headers in other charsets and behind comments."""

import gzip

import pytest

from penstock.common.errors import SourceError
from penstock.connectors.files.formats.lines import BLOCK_BYTES
from penstock.connectors.files.source import CsvReaderFormat, CsvSchema, FileSource, StreamFormat
from penstock.testing.conformance.source import check_source, read_all

LINES = ["first,1", "second,2", "", "ünïcödé,3", "last,4"]
ROWS = [{"name": name, "n": n} for name, n in (("first", "1"), ("second", "2"), ("ünïcödé", "3"), ("last", "4"))]


def source(path, file_format, split_bytes=1 << 20):
    return FileSource.for_record_stream_format(file_format, path).set_split_size(split_bytes).build()


def read(path, *args, **options):
    made = source(path, StreamFormat.csv_format(*args, **options))
    made.validate()
    return read_all(made, 1)


@pytest.mark.parametrize(("split_bytes", "last_end"), [(1, ""), (2, "\r"), (7, ""), (20, "\r"), (1000, "")])
def test_lines_that_end_with_cr(tmp_path, split_bytes, last_end):
    """A file of an old Mac, or of Excel for it, would be one line, and its CSV an error."""
    path = tmp_path / "lines"
    path.write_bytes(("\r".join(LINES) + last_end).encode())
    text = StreamFormat.text_line_format()
    if split_bytes == 7:
        check_source(lambda: source(path, text, split_bytes), parallelisms=(2,), max_records=2)
    assert read_all(source(path, text, split_bytes), 1) == LINES

    path.write_bytes(("\r".join(["name,n", *LINES]) + last_end).encode())
    csv = StreamFormat.csv_format(newlines_in_values=False)
    if split_bytes == 7:
        check_source(lambda: source(path, csv, split_bytes), parallelisms=(2,), max_records=2)
    assert read_all(source(path, csv, split_bytes), 1) == ROWS

    path.write_bytes(("\r".join(f'{{"n":{n}}}' for n in range(5)) + last_end).encode())
    assert read_all(source(path, StreamFormat.json_lines_format(), split_bytes), 1) == [{"n": n} for n in range(5)]


@pytest.mark.parametrize("charset", ["utf-8", "utf-16", "latin-1"])
def test_lines_that_end_with_cr_in_other_files(tmp_path, charset):
    """Compressed files and other charsets have their own ways to the bytes."""
    data = "\r".join(["name,n", *LINES]).encode(charset)
    (tmp_path / "plain.csv").write_bytes(data)
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(data))

    for name in ("plain.csv", "packed.csv.gz"):
        assert read(tmp_path / name, charset=charset) == ROWS


@pytest.mark.parametrize("name", ["lines", "lines.gz"])
def test_a_line_whose_cr_lf_is_cut_by_the_look_at_a_file(tmp_path, name):
    """Each line of the file would be followed by an empty one: its first is as long as what is looked at."""
    lines = ["a" * (BLOCK_BYTES - 1), "b", "c"]
    data = "\r\n".join([*lines, ""]).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert read_all(source(tmp_path / name, StreamFormat.text_line_format()), 1) == lines
    (tmp_path / name).write_bytes(gzip.compress(b"a\rb\r") if name.endswith("gz") else b"a\rb\r")
    assert read_all(source(tmp_path / name, StreamFormat.text_line_format()), 1) == ["a", "b"]


def test_a_cr_in_a_file_of_other_lines_is_no_end(tmp_path):
    """Progress bars in a log would be cut into pieces, and a value of CSV into two records."""
    path = tmp_path / "log"
    path.write_bytes(b"one\n10%\r20%\rdone\ntwo\n")
    assert read_all(source(path, StreamFormat.text_line_format()), 1) == ["one", "10%\r20%\rdone", "two"]
    path.write_bytes(b'a,b\n"1\r2",3\n')
    assert read(path) == [{"a": "1\r2", "b": "3"}]
    path.write_bytes(b"a,b\n1\r2,3\n")
    with pytest.raises(SourceError, match=r"line 2 \(byte 4\): an unquoted value contains a CR"):
        read(path)


def test_a_bad_line_of_a_file_with_cr_is_named(tmp_path):
    """All would be line 1."""
    path = tmp_path / "bad.csv"
    path.write_bytes(b"a,b\r1,2\r3\r")
    with pytest.raises(
        SourceError, match=r"bad\.csv, line 3 \(byte 8\): expected 2 fields in this record, got 1\n  3$"
    ):
        read(path)
    schema = CsvSchema.builder().add_string_column("a").set_use_header().set_line_separator("\r").build()
    path.write_bytes(b"a\rx\r")
    assert [row["a"] for row in read_all(source(path, CsvReaderFormat.for_schema(schema)), 1)] == ["x"]


@pytest.mark.parametrize(
    ("before", "options", "line", "byte"),
    [
        ("", {}, 1, 2),
        ("# fine\n", {"comments": True}, 2, 9),
        ("\ufeff", {}, 1, 5),
        ("a,b\n", {"skip_first_data_row": True}, 2, 6),
    ],
)
@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_a_header_in_another_charset_is_refused(tmp_path, before, options, line, byte, on_error):
    """Columns would have names with U+FFFD in them, in silence, if the rows below are ASCII."""
    path = tmp_path / "latin.csv"
    data = before.encode() + "Größe,Name\n1,x\n".encode("latin-1")
    path.write_bytes(data)
    with pytest.raises(SourceError, match=rf"latin\.csv, line {line} \(byte {byte}\): this is not utf-8 text"):
        read(path, **options, on_error=on_error)
    if not before:
        assert read(path, charset="latin-1") == [{"Größe": "1", "Name": "x"}]


def far(path, end, before, times):
    """Write a file whose header is behind so many lines."""
    path.write_bytes(("\ufeff" + end.join([before] * times + ["a,b", "1,2", "3,4", ""])).encode())


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_header_far_from_the_beginning(tmp_path, end):
    """The header of a VCF file, which comes after comments of megabytes, would not be found, nor any record."""
    path = tmp_path / "far.csv"
    far(path, end, "# contig " + "x" * 90, 2000)
    expected = [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    for options in ({}, {"on_error": "skip"}, {"newlines_in_values": False}):
        assert read(path, comments=True, **options) == expected
    csv = StreamFormat.csv_format(comments=True, newlines_in_values=False)
    assert read_all(source(path, csv, 100_000), 2) == expected
    assert read(path, comments=True, skip_first_data_row=True) == expected[1:]


def test_a_header_behind_blank_lines(tmp_path):
    """An export that begins with a page of nothing would have no records."""
    path = tmp_path / "far.csv"
    far(path, "\n", "", 132_000)
    assert read_all(source(path, StreamFormat.csv_format()), 1) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
