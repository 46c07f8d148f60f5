"""JSON lines as batches of columns, compared with the rows of the same file."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.connectors.read_as_columns import ThroughColumns, batches, outcome, rows

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.typeinfo import Types
from penstock.connectors.files.formats.json_format import JsonLinesFormat
from penstock.connectors.files.source import FileSource
from penstock.connectors.files.split import FileSplit
from penstock.testing.conformance.source import check_source


class Plain(msgspec.Struct):
    i: int
    f: float
    s: str
    t: datetime
    b: bool


@dataclass
class Defaults:
    i: Annotated[int, msgspec.Meta(ge=0)]
    f: float | None = None
    s: str = "x"
    t: datetime | None = None
    b: bool = True
    own: list[int] = field(default_factory=list)


@dataclass
class Checked:
    i: int
    s: str = "x"

    def __post_init__(self) -> None:
        self.i += 1


class Partial(TypedDict):
    i: int
    s: NotRequired[str]
    t: datetime | None


class Renamed(msgspec.Struct, rename="upper"):
    i: int
    s: str


class Nested(msgspec.Struct):
    i: int
    own: list[int]
    d: date


INTEGER, FLOAT, TEXT = pyarrow.int64(), pyarrow.float64(), pyarrow.string()
TYPES = {
    "i": INTEGER, "f": FLOAT, "s": TEXT, "t": pyarrow.timestamp("us"), "b": pyarrow.bool_(), "d": pyarrow.date32(),
    "own": pyarrow.list_(INTEGER),
}  # fmt: skip
OTHERS = {"i": [pyarrow.int16(), FLOAT], "t": [pyarrow.timestamp("us", "UTC"), pyarrow.timestamp("ms")], "f": [INTEGER]}
KINDS = [Plain, Defaults, Checked, Partial, Renamed, Nested, Any, dict[str, Any]]
NAMES = {
    Plain: "ifstb", Defaults: ["i", "f", "s", "t", "b", "own"], Checked: "is", Partial: "ist", Renamed: "is",
    Nested: ["i", "own", "d"],
}  # fmt: skip
VALUES = {
    "i": ["1", "-5", "0", "40000", "1.0", "1e2", "9223372036854775807", "9223372036854775808", "true", '"1"', "null"],
    "f": ["1.5", "2", "-0.0", "1e-300", "1e999", "9007199254740993", "NaN", '"1"', "null"],
    "s": ['""', '"é"', r'"\u00e9\n\""', r'"\ud800"', '"\t"', "1", "null", '"2024-01-02T03:04:05"'],
    "t": ['"2024-01-02T03:04:05"', '"2024-01-02 03:04:05.123456"', '"2024-01-02t03:04:05.1234567"',
          '"2024-01-02T03:04:05Z"', '"2024-01-02T03:04:05.5+05:30"', '"0000-01-01T00:00:00"', '"2024-02-30T00:00:00"',
          '"2024-01-02T03:04"', '"2024-01-02"', '"9999-12-31T23:59:59.999999"', '"0001-01-01T00:00:00+05:00"',
          '"2024-01-02T03:04:60"', r'"2024\u002d01-02T03:04:05"', "7", "null"],
    "b": ["true", "false", "1", "null"],
    "d": ['"2024-01-02"', '"2024-02-30"', "null"],
    "own": ["[]", "[1,2]", "[1.5]", "null"],
    "other": ['{"x": [1]}', "1e999", "null"],
}  # fmt: skip


@st.composite
def lines(draw: st.DrawFn, names: Any) -> str:
    """Draw a line that is usually a record with these fields."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(["", "  ", "[]", "1", "{}", '{"i":1', '{"i":1} {"i":2}', "null", '{"i":1,"i":2}']))
    keys = [name for name in names if draw(st.integers(0, 19))] + ["other"] * (draw(st.integers(0, 9)) == 0)
    good = draw(st.booleans())
    values = [VALUES[key][0] if good else draw(st.sampled_from(VALUES[key])) for key in keys]
    return "{" + ", ".join(f'"{key}": {value}' for key, value in zip(keys, values, strict=True)) + "}"


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_columns_of_any_lines_are_those_of_rows(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A value would change, or its record be lost, by the move of a job to columns."""
    kind = data.draw(st.sampled_from(KINDS))
    names = list(NAMES.get(kind, "ifsb"))
    read = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    schema = pyarrow.schema(
        [
            pyarrow.field(
                name,
                data.draw(st.sampled_from([TYPES[name], TYPES[name], TYPES[name], *OTHERS.get(name, [])])),
                data.draw(st.integers(0, 9)) > 0,
            )
            for name in read
        ]
    )
    written = [name.upper() for name in names] if kind is Renamed else names
    known = {name: VALUES.get(name, VALUES.get(name.lower(), [])) for name in written}
    VALUES.update(known)
    text = "\n".join(data.draw(st.lists(lines(written), max_size=6)))
    end = data.draw(st.sampled_from(["", "\n", "\r\n"]))
    path = tmp_path_factory.mktemp("json") / "a.json"
    path.write_bytes((text.replace("\n", "\r\n") if end == "\r\n" else text).encode() + end.encode())
    json = JsonLinesFormat(kind, on_error=data.draw(st.sampled_from(["fail", "skip"])))
    split, columns = FileSplit(str(path), 0, None, 0), RecordColumns(schema)
    assert outcome(batches, json, split, columns) == outcome(rows, json, split, columns)


def test_positions_inside_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart would read rows again, or leave some out."""
    monkeypatch.setattr("penstock.connectors.files.formats.line_format.BLOCK_BYTES", 16)
    path = tmp_path / "a.json"
    json = ThroughColumns(JsonLinesFormat(Partial, on_error="skip"), _OneSchema(), False)
    path.write_text("".join(f'{{"i": {i}, "s": "x", "t": null}}\n' for i in range(40)) + '{"i": "bad"}\n')
    check_source(lambda: FileSource.for_record_stream_format(json, path).set_split_size(100).build(), max_records=3)


class _OneSchema:
    def __call__(self, path: str) -> pyarrow.Schema:
        return pyarrow.schema({"i": INTEGER, "s": TEXT})


def test_lines_of_a_type_make_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conversion would cost as much as that of rows."""

    def refuse(*_: Any) -> None:
        raise AssertionError("a record was made")

    monkeypatch.setattr("penstock.connectors.files.formats.line_columns.ColumnsParser.batch_of", refuse)
    path = tmp_path / "a.json"
    path.write_text('{"i": 1, "f": 2, "s": "x", "t": "2024-01-02T03:04:05", "b": true}\n')
    columns = RecordColumns(Types.ROW_NAMED(["b", "i"], [Types.BOOLEAN(), Types.INT()]))
    assert batches(JsonLinesFormat(Plain), FileSplit(str(path), 0, None, 0), columns)[0] == [{"b": True, "i": 1}]
    assert JsonLinesFormat(Plain, on_error="emit").on_columns(columns) is None
