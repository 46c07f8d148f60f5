"""Lines that cannot be read among others: columns leave out the lines that rows leave out, and only these."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from tests.first_cases import first_of
from tests.unit.connectors.test_unreadable_lines_of_columns import BAD, parts_of

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.types.record_fields import fields_of
from penstock.connectors.files.formats.csv_format import CsvFormat
from penstock.connectors.files.formats.json_format import JsonLinesFormat
from penstock.connectors.files.formats.line_format import LineFormat, LineParser
from penstock.connectors.files.split import FileSplit

NAMES = ["i", "f", "t", "s"]
ALL = pyarrow.schema(
    {"i": pyarrow.int64(), "f": pyarrow.float64(), "t": pyarrow.timestamp("us"), "s": pyarrow.string()}
)
VALUES = {
    "i": ["7", "-1", "1e2", "x", "", " 5", "1_0"],
    "f": ["1.5", "-2", "NaN", "1e999", "y", "", "1_0.5"],
    "t": ["2024-01-02T03:04:05", "2024-01-02 03:04:05.123456", "2024-02-30T00:00:00", "2024-01-02", "", "noon"],
    "s": ["a", "é", "", "NA"],
}
"""The first value of each is the usual one."""


@dataclass
class Line:
    i: int
    f: float
    t: datetime
    s: str


def csv_format(on_error: Any) -> LineFormat[Any]:
    return CsvFormat(NAMES, {"i": int, "f": float, "t": datetime}, header=False, on_error=on_error, null_value="NA")


def json_format(on_error: Any) -> LineFormat[Any]:
    return JsonLinesFormat(Line, on_error=on_error)


def csv_line(rng: random.Random, values: list[str], is_quoted: bool) -> str:
    shown = [f'"{value}"' if is_quoted and rng.random() < 0.3 else value for value in values]
    return ",".join(shown if rng.random() < 0.97 else rng.choice([shown[:2], [*shown, "more"], ['"a\nb"', *shown[1:]]]))


def json_line(rng: random.Random, values: list[str], is_quoted: bool) -> str:
    of_times = [f'"{value}"' for value in values[2:]]
    line = "{" + ",".join(f'"{n}":{v or "null"}' for n, v in zip(NAMES, [*values[:2], *of_times], strict=True)) + "}"
    return line if rng.random() < 0.97 else rng.choice([line[:-1], line + line, "[]", "  ", "null"])


def content(seed: int, line: Any, count: int) -> bytes:
    """Return lines of which a share is unusual, with LF or CR LF, some empty, maybe not all UTF-8."""
    rng = random.Random(seed)
    of_unusual, is_quoted, end = rng.choice([0.002, 0.05, 0.5]), rng.random() < 0.5, rng.choice([b"\n", b"\r\n"])
    lines = []
    for _ in range(count):
        is_usual = rng.random() >= of_unusual
        values = [known[0] if is_usual else rng.choice(known) for known in VALUES.values()]
        lines.append(b"" if rng.random() < 0.01 else line(rng, values, is_quoted).encode())
        if seed % 4 == 3 and rng.random() < 0.005:
            lines[-1] += b"\xff"
    return end.join(lines) + rng.choice([b"", end])


FORMATS: dict[str, Any] = {"csv": (csv_format, csv_line), "json": (json_format, json_line)}


@pytest.mark.parametrize("on_error", ["skip", BAD])
@pytest.mark.parametrize("seed", first_of(8, range(24)))
@pytest.mark.parametrize("name", FORMATS)
def test_columns_leave_out_the_lines_that_rows_leave_out(tmp_path: Path, name: str, seed: int, on_error: Any) -> None:
    """A line would be lost, or be at another place, by the move of a job to columns."""
    format_of, line = FORMATS[name]
    path = tmp_path / "a"
    path.write_bytes(content(seed, line, 600))
    read = random.Random(seed).sample(NAMES, 1 + seed % 4)
    columns = RecordColumns(pyarrow.schema([ALL.field(one) for one in read]))
    records, counted = format_of(on_error), ([], [])  # type: ignore[var-annotated]
    split = FileSplit(str(path), 0, None, 0)
    by_rows: list[Any] = []
    for chunk in records.read(split, counted[0].append):
        for value in chunk.values:
            is_side = isinstance(value, tuple)
            by_rows.append(value if is_side else dict(zip(read, fields_of(value, tuple(read)), strict=True)))
    of_columns = [one for c in records.on_columns(columns).read(split, counted[1].append) for one in parts_of(c.values)]
    assert repr(of_columns) == repr(by_rows)  # NaN equals itself in texts.
    assert len(counted[0]) == len(counted[1]) == sum(counted[1])


@pytest.mark.parametrize("on_error", ["skip", BAD])
@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("csv", b"1,2"),
        ("csv", b"x,1.5,2024-01-02T03:04:05,a"),
        ("csv", b"1,1.5,2024-02-30T03:04:05,a"),
        ("json", b'{"i":1'),
        ("json", b'{"i":1,"f":1.5,"t":"2024-02-30T03:04:05","s":"a"}'),
    ],
)
def test_only_the_bad_line_goes_through_the_parser_of_rows(
    tmp_path: Path, name: str, bad: bytes, on_error: Any
) -> None:
    """A few bad lines would slow a file down to less than the rate of rows."""
    good = {"csv": b"%d,1.5,2024-01-02T03:04:05,a\n", "json": b'{"i":%d,"f":1.5,"t":"2024-01-02T03:04:05","s":"a"}\n'}
    path = tmp_path / "a"
    path.write_bytes(b"".join(bad + b"\n" if n % 100 == 50 else good[name] % n for n in range(2_000)))
    records = FORMATS[name][0](on_error)
    watched = records.on_columns(RecordColumns(ALL))
    parsed: list[bytes] = []

    class Watched(type(watched)):  # type: ignore[misc]
        def parser(self, path: str, cr_ends: bool) -> LineParser:
            parser = super().parser(path, cr_ends)
            parser.records = _Noting(parser.records, parsed)
            return parser  # type: ignore[no-any-return]

    watched.__class__ = Watched
    rows = sum(len(parts_of(c.values)) for c in watched.read(FileSplit(str(path), 0, None, 0), [].append))
    assert rows == (1_980 if on_error == "skip" else 2_000)
    assert set(parsed) == {bad}


class _Noting(LineParser):
    """A parser of rows that notes what it parses."""

    def __init__(self, parser: LineParser, parsed: list[bytes]) -> None:
        self._parser = parser
        self._parsed = parsed

    def parse(self, block: bytes, last: bool) -> tuple[Any, int]:
        self._parsed.append(block)
        return self._parser.parse(block, last)
