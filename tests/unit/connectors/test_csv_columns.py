"""CSV as batches of columns, compared with the rows of the same file."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.connectors.read_as_columns import batches, outcome, rows

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.typeinfo import Types
from penstock.connectors.files.formats.csv_format import CsvFormat
from penstock.connectors.files.split import FileSplit

CELLS = st.text(st.sampled_from("ab,;\"\n\r é#\\\0'N"), max_size=5)
NUMBERS = ["0", "-7", "12", "007", "+3", " 4 ", "1e2", "1_0", "0x1f", "٣", "9223372036854775807",
    "-9223372036854775809", "1.5", "-.5", "2.", "1e400", "1e-400", "NaN", "Infinity", "nan", "16777217", "0.1", "3e38",
    "4e38", "", "NA"]  # fmt: skip
TIMES = ["2024-01-02", "2024-02-30", "20240102", "2024-W01-2", "0000-01-01", "0001-01-01", "9999-12-31",
    "2024-01-02T03:04:05", "2024-01-02 03:04:05.6", "2024-01-02 03:04:05.123456", "2024-01-02T03:04:05.1234567",
    "2024-01-02T03", "2024-01-02 24:00:00", "2024-01-02T03:04:05Z", "2024-01-02T03:04:05+02:00",
    "0001-01-01T00:00:00+05:00", "2024-01-02+02", "2024-01-02T03:04:05,5", "", "NA", " 2024-01-02"]  # fmt: skip
WORDS = ["true", "FALSE", "tRuE", "1", "0", " true ", "yes", "", "NA", "é"]
LONGEST = "x" * 131_072
KINDS: list[tuple[Any, pyarrow.DataType, list[str]]] = [
    (None, pyarrow.string(), [*WORDS, *NUMBERS]),
    (None, pyarrow.large_string(), WORDS),
    (None, pyarrow.int64(), WORDS),
    (int, pyarrow.int64(), NUMBERS),
    (int, pyarrow.int16(), NUMBERS),
    (int, pyarrow.uint64(), NUMBERS),
    (int, pyarrow.float64(), NUMBERS),
    (Types.SHORT(), pyarrow.int64(), [*NUMBERS, "32768"]),
    (Types.LONG(), pyarrow.int64(), NUMBERS),
    (Types.BIG_INT(), pyarrow.int64(), NUMBERS),
    (float, pyarrow.float64(), NUMBERS),
    (float, pyarrow.float32(), NUMBERS),
    (float, pyarrow.int64(), NUMBERS),
    (bool, pyarrow.bool_(), WORDS),
    (date, pyarrow.date32(), TIMES),
    (datetime, pyarrow.timestamp("us"), TIMES),
    (datetime, pyarrow.timestamp("ms"), TIMES),
    (datetime, pyarrow.timestamp("us", "UTC"), TIMES),
    (Types.BIG_DEC(), pyarrow.decimal128(10, 2), NUMBERS),
    (len, pyarrow.int64(), WORDS),
]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_columns_of_any_types_are_those_of_rows(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A value would change, or its record be lost, by the move of a job to columns."""
    kinds = data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    cells = st.tuples(*(st.sampled_from(texts) for _, _, texts in kinds))
    lines = data.draw(st.lists(cells, max_size=8)) * data.draw(st.sampled_from([1, 1, 5]))
    names = [f"c{number}" for number in range(len(kinds))]
    read = data.draw(st.sets(st.sampled_from(names), min_size=1))
    schema = pyarrow.schema(
        [
            pyarrow.field(name, kind, nullable=data.draw(st.integers(0, 9)) > 0)
            for name, (_, kind, _) in zip(names, kinds, strict=True)
            if name in read
        ]
    )
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_text("".join(f"{','.join(line)}\n" for line in lines), "utf-8", newline="")
    csv = CsvFormat(
        names,
        {name: kind for name, (kind, _, _) in zip(names, kinds, strict=True) if kind is not None},
        header=False,
        null_value=data.draw(st.sampled_from([None, "NA"])),
        on_error=data.draw(st.sampled_from(["fail", "skip"])),
    )
    split, columns = FileSplit(str(path), 0, None, 0), RecordColumns(schema)
    assert outcome(batches, csv, split, columns) == outcome(rows, csv, split, columns)


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(
        st.one_of(
            st.tuples(CELLS, CELLS).map(lambda cells: ",".join('"' + one.replace('"', '""') + '"' for one in cells)),
            st.tuples(CELLS, CELLS).map(",".join),
            st.sampled_from(["", "a,b", '"",', ',""', '""', '"a"b,c', 'a"b,c', '"a,b', "#,c", '"#",c', "a;b", "a,b,c"]),
        ),
        max_size=9,
    ),
    end=st.sampled_from(["\n", "\r\n"]),
    final=st.booleans(),
    options=st.fixed_dictionaries(
        {
            "delimiter": st.sampled_from([",", ";", "é"]),
            "quote_char": st.sampled_from(['"', "'", None]),
            "escape_char": st.sampled_from([None, None, "\\"]),
            "comments": st.booleans(),
            "null_value": st.sampled_from([None, "", "a"]),
            "newlines_in_values": st.booleans(),
            "surplus_fields": st.booleans(),
            "charset": st.sampled_from(["UTF-8", "UTF-8", "latin-1", "UTF-16LE"]),
            "on_error": st.sampled_from(["fail", "skip"]),
            "columns": st.sampled_from([["x", "y"], ["x"]]),
        }
    ),
)
def test_lines_of_any_dialect_are_those_of_rows(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str, final: bool, options: dict[str, Any]
) -> None:
    """Quotes, escapes and comments would have another meaning in columns."""
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes((end.join(lines) + end * final).encode(options["charset"]))
    csv = CsvFormat(header=False, **options)
    columns = RecordColumns(pyarrow.schema({name: pyarrow.string() for name in options["columns"]}))
    split = FileSplit(str(path), 0, None, 0)
    assert outcome(batches, csv, split, columns) == outcome(rows, csv, split, columns)


@pytest.mark.parametrize(
    "line", [f"{LONGEST},b", f'"{LONGEST}",b', f"a,{LONGEST}x", f'"{LONGEST}x",b', f'a,"{LONGEST}']
)
@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_fields_have_the_same_limit(tmp_path: Path, line: str, on_error: Any) -> None:
    """A line that rows skip would be a record."""
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" * 9 + line + "\n" + "a,b\n" * 9)
    csv, columns = (
        CsvFormat(["x", "y"], header=False, on_error=on_error),
        RecordColumns(pyarrow.schema({"y": pyarrow.string()})),
    )
    split = FileSplit(str(path), 0, None, 0)
    assert outcome(batches, csv, split, columns) == outcome(rows, csv, split, columns)


@pytest.mark.parametrize("damage", [b"\xff", b"\xed\xa0\x80", b"\xc3"])
def test_bytes_that_are_not_of_the_charset_take_no_other_line_with_them(tmp_path: Path, damage: bytes) -> None:
    """A batch would have a text that no function can read."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"1,a\n" * 3 + b"2," + damage + b"\n" + b"3,c\n" * 3)
    split = FileSplit(str(path), 0, None, 0)
    for names in (["x"], ["x", "y"]):
        columns = RecordColumns(pyarrow.schema({name: pyarrow.string() for name in names}))
        for on_error in ("fail", "skip"):
            csv = CsvFormat(["x", "y"], header=False, on_error=on_error)
            found = outcome(batches, csv, split, columns)
            assert found == outcome(rows, csv, split, columns)
            assert ("SourceError" in found) == (on_error == "fail")


def test_records_that_may_be_unreadable_lines_remain_rows() -> None:
    """An UnreadableLine has no columns: the job would fail, or lose it."""
    assert (
        CsvFormat(["x"], header=False, on_error="emit").on_columns(RecordColumns(pyarrow.schema({"x": "str"}))) is None
    )


def test_plain_lines_call_no_function_for_each_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conversion would cost as much as that of rows."""

    def refuse(*_: Any) -> None:
        raise AssertionError("a block of plain lines was parsed as rows")

    monkeypatch.setattr("penstock.connectors.files.formats.csv_format.CsvParser.parse", refuse)
    monkeypatch.setattr("penstock.connectors.files.formats.csv_format.CsvParser.rows_of", refuse)
    monkeypatch.setattr("penstock.common.columns.record_columns.RecordColumns.exact_batch", refuse)
    path = tmp_path / "a.csv"
    path.write_text('i,f,t,b,s\n1,-2.5,2024-01-02 03:04:05,true,"a, ""b"""\n,,,,\n')
    kinds = {"i": int, "f": float, "t": datetime, "b": bool}
    arrow = [("i", "int64"), ("f", "float64"), ("t", pyarrow.timestamp("us")), ("b", "bool"), ("s", "str")]
    found, _ = batches(CsvFormat(types=kinds), FileSplit(str(path), 0, None, 0), RecordColumns(pyarrow.schema(arrow)))
    assert list(found[0].values()) == [1, -2.5, datetime(2024, 1, 2, 3, 4, 5), True, 'a, "b"']
    assert list(found[1].values()) == [None, None, None, None, ""]
