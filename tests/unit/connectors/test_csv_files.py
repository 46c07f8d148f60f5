"""CSV through FileSource."""

import csv
import io
from datetime import date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.connectors.read_as_columns import CsvThroughColumns

from penstock.common.errors import SourceError
from penstock.common.serialization import Encoder
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.connectors.files.formats.csv_format import CsvFormat
from penstock.connectors.files.formats.line_format import LineParser
from penstock.connectors.files.sink import FileSink
from penstock.connectors.files.source import CsvReaderFormat, CsvSchema, FileSource, StreamFormat
from penstock.datastream.formats.csv import CsvBulkWriters, CsvRowSerializationSchema
from penstock.testing.conformance.sink import SimpleSinkContext
from penstock.testing.conformance.source import check_source, read_all

quick = settings(max_examples=40)
CELLS = st.text(st.sampled_from('ab,"\n é;#'), max_size=5)


@pytest.fixture(params=["rows", "columns"], autouse=True)
def way(request, monkeypatch):
    """Each test reads rows, and batches whose records are those rows."""
    monkeypatch.setattr(Way, "is_columns", request.param == "columns")


class Way:
    is_columns = False


def csv_source(path, *args, split_bytes=1000, **options):
    csv_format = StreamFormat.csv_format(*args, **options)
    if Way.is_columns and options.get("on_error") != "emit":
        csv_format = CsvThroughColumns(csv_format)
    return FileSource.for_record_stream_format(csv_format, path).set_split_size(split_bytes).build()


def write(path, text):
    path.write_bytes(text.encode())
    return path


@quick
@given(rows=st.lists(st.tuples(CELLS, CELLS), max_size=12), block=st.sampled_from([1, 3, 10, 1000]))
def test_whatever_csv_can_hold_comes_back(tmp_path, monkeypatch, rows, block):
    """A comma, quote or newline in a value would shift the columns of a record."""
    monkeypatch.setattr("penstock.connectors.files.formats.line_format.BLOCK_BYTES", block)
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([("x", "y"), *rows])
    path = write(tmp_path / "a.csv", text.getvalue())
    assert read_all(csv_source(path), 1) == [{"x": x, "y": y} for x, y in rows]


def test_positions_inside_quoted_values(tmp_path, monkeypatch):
    """A restart would continue in the middle of a value that contains a newline."""
    monkeypatch.setattr("penstock.connectors.files.formats.line_format.BLOCK_BYTES", 8)
    path = write(tmp_path / "a.csv", 'x,y\n1,"a\nb\n\nc"\n\n2,"""\n"""\n3,"long\n' + "\n" * 50 + '"\n4,d')
    check_source(lambda: csv_source(path, split_bytes=4), max_records=1)
    assert len(read_all(csv_source(path), 1)) == 4


@pytest.mark.parametrize(
    ("end", "split_bytes"), [("\r\n", 1), ("\n", 5), ("\r\n", 5), ("\r\n", 16), ("\n", 1000), ("\r\n", 1000)]
)
def test_files_without_newlines_in_values_are_cut(tmp_path, end, split_bytes):
    """Splits other than the first would not know the header."""
    lines = ["\ufeffid,name", '1,"Doe, J."', "", "2,é", '3,"say ""hi"""']
    path = write(tmp_path / "a.csv", end.join(lines) + end)
    make = lambda: csv_source(path, newlines_in_values=False, split_bytes=split_bytes)  # noqa: E731
    assert read_all(make(), 1) == [
        {"id": "1", "name": "Doe, J."},
        {"id": "2", "name": "é"},
        {"id": "3", "name": 'say "hi"'},
    ]
    check_source(make, max_records=1)


def test_a_newline_in_a_value_is_refused_where_the_format_excludes_it(tmp_path):
    """Such a file would be read differently at another split size."""
    path = write(tmp_path / "a.csv", 'x\n1\n"2\n3"\n')
    for split_bytes in (1, 4, 1000):
        with pytest.raises(SourceError, match=r"a\.csv, line 3"):
            read_all(csv_source(path, newlines_in_values=False, split_bytes=split_bytes), 1)


@quick
@given(
    lines=st.lists(st.sampled_from(["1,2", '"a,b', "c", '3,"x"y', '"d"" ,e', '"', 'f,"g"', "4,5,6"]), max_size=9),
    block=st.sampled_from([1, 7, 30, 1000]),
    split_bytes=st.sampled_from([1, 6, 1000]),
    behind=st.sampled_from([1, 9, 512]),
)
def test_a_stray_quote_takes_no_other_line_with_it(tmp_path, monkeypatch, lines, block, split_bytes, behind):
    """All lines up to the next quote would be skipped, and be counted as one; how many, would depend on the split."""
    monkeypatch.setattr("penstock.connectors.files.formats.line_format.BLOCK_BYTES", block)
    monkeypatch.setattr("penstock.connectors.files.formats.line_format.AFTER_BAD_RECORD_BYTES", behind)
    good = {"1,2": ["1", "2"], 'f,"g"': ["f", "g"]}
    path = write(tmp_path / "a.csv", "".join(f"{line}\n" for line in lines))
    source = csv_source(
        path, ["x", "y"], header=False, newlines_in_values=False, on_error="skip", split_bytes=split_bytes
    )
    assert [list(record.values()) for record in read_all(source, 1)] == [good[line] for line in lines if line in good]


def test_a_quote_that_is_not_closed_takes_no_other_line_with_it_in_a_long_file(tmp_path):
    """The lines of 128 KiB, as much as a value may have, would be skipped, and be counted as one record."""
    lines = [f"{number},good" for number in range(20_000)]
    path = write(tmp_path / "a.csv", "\n".join(["k,v", *lines[:5], '"5,bad', *lines[5:]]))
    kept = read_all(csv_source(path, on_error="skip", split_bytes=1 << 20), 1)
    assert [",".join(record.values()) for record in kept] == lines
    with pytest.raises(SourceError, match=r"line 7 .*field larger than field limit"):
        read_all(csv_source(path, split_bytes=1 << 20), 1)


class Counting(CsvFormat):
    """Counts the bytes that are parsed."""

    parsed = 0

    def parser(self, path, cr_ends):
        made = super().parser(path, cr_ends)

        class Counted(LineParser):
            body_start = made.body_start

            def parse(_, block, last):  # noqa: N805
                self.parsed += len(block)
                return made.parse(block, last)

        return Counted()


@pytest.mark.parametrize("types", [{}, {"k": int}])
def test_many_bad_records_cost_no_more_than_they_are(tmp_path, types):
    """All of a block would be parsed again for each: a file with 5,000 of them took 12 seconds."""
    bad = "x,a" if types else "bad"
    path = write(tmp_path / "a.csv", "k,v\n" + f"1,a\n{bad}\n" * 2_000)
    counting = Counting(types=types, on_error="skip")
    assert len(read_all(FileSource.for_record_stream_format(counting, path).build(), 1)) == 2_000
    assert counting.parsed < 400 * path.stat().st_size


def test_types(tmp_path):
    """Numbers left as text would be sorted and added up as text."""
    path = write(
        tmp_path / "a.csv",
        "i,f,b,d,t,own,s\n1,2.5,true,2013-01-01,2013-01-01T05:15:00,JFK,x\n,,,,,,\nNA,NA,NA,NA,NA,NA,NA\n",
    )
    types = {"i": Types.LONG(), "f": float, "b": bool, "d": date, "t": datetime, "own": str.lower}
    first, empty, null = read_all(csv_source(path, types=types, null_value="NA"), 1)
    assert list(first.values()) == [1, 2.5, True, date(2013, 1, 1), datetime(2013, 1, 1, 5, 15), "jfk", "x"]
    assert list(empty.values()) == [None] * 6 + [""]
    assert list(null.values()) == [None] * 7


def test_columns_are_picked_by_the_header_or_named_without_one(tmp_path):
    """Columns in an unexpected order would be mixed up silently."""
    path = write(tmp_path / "a.csv", "a,b,c\n1,2,3\n")
    assert read_all(csv_source(path, ["c", "a"]), 1) == [{"c": "3", "a": "1"}]
    assert read_all(csv_source(path, ["x", "y", "z"], header=False), 1)[1] == {"x": "1", "y": "2", "z": "3"}
    with pytest.raises(SourceError, match="lacks the column d: its columns are a, b, c"):
        csv_source(path, ["a", "d"]).validate()
    with pytest.raises(SourceError, match="the header must be c, a, got a, b, c"):
        csv_source(path, ["c", "a"], strict_header=True).validate()


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ("9", "expected 2 fields in this record, got 1"),
        ("x,9", "cannot convert field 1, 'x': invalid literal"),
        ('9,"never', "a quoted value is not closed"),
        ('9,"a"b', "expected after"),
    ],
)
def test_a_bad_record_is_named_or_skipped(tmp_path, record, words):
    """The line of a bad record could not be found after values of several lines."""
    path = write(tmp_path / "a.csv", f'n,s\n1,a\n\n2,"b\nb"\n{record}\n')
    with pytest.raises(SourceError, match=rf"a\.csv, line 6 \(byte 17\): .*{words}"):
        read_all(csv_source(path, types={"n": int}), 1)
    kept = read_all(csv_source(path, types={"n": int}, on_error="skip"), 1)
    assert kept == [{"n": 1, "s": "a"}, {"n": 2, "s": "b\nb"}]


def test_a_bad_record_is_emitted_whole(tmp_path):
    """Users could repair only the first line of a record with several lines."""
    path = write(tmp_path / "a.csv", 'n,s\n1,a\nx,"b\nb"\n2,c\n')
    make = lambda: csv_source(path, types={"n": int}, on_error="emit")  # noqa: E731

    first, bad, last = read_all(make(), 1)

    assert (first, last) == ({"n": 1, "s": "a"}, {"n": 2, "s": "c"})
    assert (bad.path, bad.byte, bad.line) == (str(path), 8, b'x,"b\nb"')
    assert "'x'" in bad.error
    check_source(make, max_records=1)


def test_skipping_keeps_what_follows(tmp_path):
    """The rest of a block would be skipped together with its one bad line."""
    path = write(tmp_path / "a.csv", "n\n1\nx\n2\ny\nz\n3\n")
    make = lambda: csv_source(path, types={"n": int}, on_error="skip")  # noqa: E731
    assert [record["n"] for record in read_all(make(), 1)] == [1, 2, 3]
    check_source(make, max_records=1)


@pytest.mark.parametrize("first", ["2,x", "2", '"2"z,2'])
@pytest.mark.parametrize("second", ["y,4", "4", '"4"z,4'])
def test_two_bad_records_of_one_block_are_skipped(tmp_path, first, second):
    """Quotes are checked before values, and values column by column, so the error reported first may not be the first
    in the file. Such a file could never be read, however often the job was restarted."""
    path = write(tmp_path / "a.csv", f"a,b\n1,1\n{first}\n3,3\n{second}\n5,5\n")
    kept = read_all(csv_source(path, types={"a": int, "b": int}, on_error="skip"), 1)
    assert kept == [{"a": number, "b": number} for number in (1, 3, 5)]


@pytest.mark.parametrize(
    "record", ['bad,"x\n7,seven"', '3,"x\n7,seven",more', 'bad,"x\n\n7,seven\n8,eight"', '3,"x\n7,seven"z']
)
def test_a_bad_record_of_several_lines_is_skipped_as_a_whole(tmp_path, record):
    """The content of its quotes would be read as records that do not exist."""
    path = write(tmp_path / "a.csv", f"n,s\n1,one\n{record}\n2,two\n")
    kept = read_all(csv_source(path, types={"n": int}, on_error="skip"), 1)
    assert kept == [{"n": 1, "s": "one"}, {"n": 2, "s": "two"}]


def test_pyflink_schema(tmp_path):
    """PyFlink programs that describe their files by a schema would not run."""
    schema = (
        CsvSchema.builder()
        .add_number_column("id")
        .add_array_column("tags", separator=";", element_type=int)
        .add_string_column("name")
        .add_boolean_column("ok")
        .set_column_separator("|")
        .set_quote_char("'")
        .set_allow_comments()
        .set_skip_first_data_row()
        .set_null_value("-")
        .build()
    )
    assert schema.size() == 4
    path = write(tmp_path / "a.csv", "# a comment\nignored|row\n1|2;3|'a|b'|1\n# another\n4|-|-|false\n")
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), path).build()
    assert read_all(source, 1) == [
        Row(id=1, tags=[2, 3], name="a|b", ok=True),
        Row(id=4, tags=None, name=None, ok=False),
    ]


def test_separators_of_arrays_and_surplus_fields_are_those_of_pyflinks_schema(tmp_path):
    """A PyFlink program with such a schema would stop with an AttributeError, or take a text for one element."""
    builder = CsvSchema.builder().add_array_column("a").add_array_column("b", "|").add_string_column("c")
    builder.add_array_column("d", "").set_array_element_separator("+").remove_array_element_separator(0)
    with pytest.raises(IndexError, match="must be from 0 to 3, got 4"):
        builder.remove_array_element_separator(4)
    path = write(tmp_path / "a.csv", "1+2;,3|4+,x,5+6\n1,2,y,3\n")

    def rows(schema):
        return read_all(FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), path).build(), 1)

    rest = Row(a=["1"], b=["2"], c="y", d=["3"])
    assert rows(builder.build()) == [Row(a=["1", "2;"], b=["3", "4+"], c="x", d=["5", "6"]), rest]
    schema = builder.disable_array_element_separator().build()
    assert rows(schema) == [Row(a=["1+2;"], b=["3", "4+"], c="x", d=["5+6"]), rest]
    write(tmp_path / "a.csv", "1,2,y,3,4,5\n1,2,y,3\n")
    with pytest.raises(SourceError, match="expected 4 fields in this record, got 6"):
        rows(schema)
    assert rows(builder.set_any_property_name("more").build()) == [rest, rest]
    with pytest.raises(ValueError, match="'c' is the name of a column of the CsvSchema"):
        builder.set_any_property_name("c").build()


@pytest.mark.parametrize(
    "options",
    [{"header": False}, {"columns": ["a", "a"]}, {"columns": ["a"], "types": {"b": int}}, {"on_error": "ignore"}],
)
def test_contradictions_are_refused(options):
    """Contradictions would be found by the first task that reads."""
    with pytest.raises(ValueError):
        StreamFormat.csv_format(**options)


def test_a_file_with_a_header_only_or_nothing_is_empty(tmp_path):
    """A day without records would fail the job."""
    write(tmp_path / "a.csv", "")
    write(tmp_path / "b.csv", "x,y\n")
    write(tmp_path / "c.csv", "x,y")
    assert read_all(csv_source(tmp_path, types={"x": int}), 2) == []


@pytest.mark.parametrize("header", [True, False])
def test_what_csv_bulk_writers_write_is_read_back(tmp_path, header):
    """A job could not read the files that an earlier one wrote with the same schema."""
    builder = CsvSchema.builder().add_string_column("name").add_number_column("delay").add_boolean_column("late")
    builder.add_array_column("stops", "|").set_column_separator(";").set_null_value("-").set_use_header(header)
    schema = builder.build()
    records = [
        {"name": 'J;F "K"', "delay": 5, "late": True, "stops": ["a", "b"]},
        {"name": None, "delay": None, "late": None, "stops": None},
        Row(name="two\nlines", delay=-1, late=False, stops=["c"]),
    ]
    sink = FileSink.for_bulk_format(tmp_path, CsvBulkWriters.for_schema(schema)).build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write_chunk(records[:1], None)
    writer.write_chunk(records[1:], None)
    sink.create_committer().commit(writer.prepare_commit())
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), tmp_path).build()
    assert read_all(source, 1) == [Row(**(r if isinstance(r, dict) else r.as_dict())) for r in records]
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert path.read_text().startswith("name;delay;late;stops\n") == header


@pytest.mark.parametrize("quote", ['"', None])
def test_a_first_value_that_begins_like_a_byte_order_mark_comes_back(tmp_path, quote):
    """A file without a header would lose the first character: readers take it for a mark, as Jackson and Python do."""
    rows = [("\ufeffa;b" if quote else "\ufeffa", "1"), ("\ufeff", "2")]
    escape = None if quote else "\\"
    encoder = Encoder.csv_encoder(quote_char=quote, escape_char=escape)
    schema = CsvRowSerializationSchema.Builder(Types.ROW([Types.STRING(), Types.STRING()]))
    schema = schema.disable_quote_character().set_escape_character("\\") if quote is None else schema
    lines = list(map(encoder.encode, rows))
    assert lines == [schema.build().serialize(Row(*row)) for row in rows]
    (tmp_path / "a.csv").write_bytes(b"".join(lines))
    read = read_all(csv_source(tmp_path, ["x", "y"], header=False, quote_char=quote, escape_char=escape), 1)
    assert read == [{"x": x, "y": y} for x, y in rows]
    assert list(csv.reader(io.StringIO(b"".join(lines).decode("utf-8-sig")))) == list(map(list, rows)) or not quote


def test_the_byte_order_mark_of_a_file_without_a_header_is_not_in_its_first_value(tmp_path):
    """The first value would differ from all others like it, in every file that a spreadsheet has written."""
    (tmp_path / "a.csv").write_bytes("a,1\n".encode("utf-8-sig"))
    (tmp_path / "b.csv").write_bytes("\ufeffb,1\n".encode("utf-8-sig"))
    read = read_all(csv_source(tmp_path, ["x", "y"], header=False), 1)
    assert sorted(row["x"] for row in read) == ["a", "\ufeffb"], "one mark, as with utf-8-sig"


def test_csv_bulk_writers_need_columns():
    """The file would consist of empty lines."""
    with pytest.raises(ValueError, match="no columns"):
        CsvBulkWriters.for_schema(CsvSchema.builder().build())


def test_a_byte_order_mark_before_the_first_record_costs_none(tmp_path):
    """The first row of files written by Excel would be lost."""
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf1,2\n3,4\n")
    rows = read_all(csv_source(tmp_path / "a.csv", ["a", "b"], header=False), 1)
    assert rows == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


def test_a_carriage_return_in_a_value_comes_back(tmp_path):
    """A value would lose its end, or the file would be unreadable."""
    line = Encoder.csv_encoder().encode(("a\rb", "c\r"))
    (tmp_path / "a.csv").write_bytes(line)
    assert read_all(csv_source(tmp_path / "a.csv", ["x", "y"], header=False), 1) == [{"x": "a\rb", "y": "c\r"}]


def written(schema, rows):
    out = io.BytesIO()
    writer = CsvBulkWriters.for_schema(schema).create(out)
    writer.add_elements(rows)
    return out.getvalue()


TEXTS = st.text(alphabet="a,;\"\n\r\\#|' \u00e9\0", max_size=5)


@quick
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=3), quotes=st.booleans(), escape=st.booleans(), comments=st.booleans()
)
def test_any_text_that_is_written_is_read_back(tmp_path, texts, quotes, escape, comments):
    """A record that begins with # would be a comment for who reads it, and a line of a text likewise."""
    builder = CsvSchema.builder().add_string_column("text").add_number_column("n").set_allow_comments(comments)
    builder = builder if quotes else builder.disable_quote_char()
    schema = (builder.set_escape_char("\\") if escape else builder).build()
    rows = [Row(text=text, n=n) for n, text in enumerate(texts)]
    try:
        data = written(schema, rows)
    except ValueError:
        assert not quotes and not escape
        return
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    assert read_all(FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), path).build(), 1) == rows


def test_arrays_of_csv_are_written_as_they_are_read(tmp_path):
    """Otherwise, a None in an array is read back as the text "None", and an array without a separator as one number."""
    builder = CsvSchema.builder().add_array_column("a", element_type=int).add_array_column("b", element_type=bool)
    schema = builder.set_null_value("-").build()
    rows = [Row(a=[1, None, 2], b=[True, False]), Row(a=None, b=[None])]
    path = write(tmp_path / "a.csv", written(schema, rows).decode())
    assert path.read_text() == "1;-;2,true;false\n-,-\n"
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), path).build()
    assert read_all(source, 1) == [rows[0], Row(a=None, b=None)]
    whole = CsvSchema.builder().disable_array_element_separator().add_array_column("a", "", int).build()
    with pytest.raises(ValueError, match=r"at most one element in an array without a separator, got \[1, 2\]"):
        written(whole, [Row(a=[1, 2])])


@pytest.mark.parametrize(
    ("setting", "character", "reason"),
    [
        ("set_column_separator", "||", "the delimiter of CSV must be one character"),
        ("set_quote_char", "", "the quote of CSV must be one character"),
        ("set_escape_char", "\n", "other than a line break"),
        ("set_quote_char", ",", "must differ from each other"),
    ],
)
def test_characters_that_can_not_separate_are_refused(setting, character, reason):
    """The program would end with a sentence of Python's csv module, far from the schema, or cut fields anywhere."""
    builder = CsvSchema.builder().add_string_column("a")
    with pytest.raises(ValueError, match=reason):
        getattr(builder, setting)(character).build()
