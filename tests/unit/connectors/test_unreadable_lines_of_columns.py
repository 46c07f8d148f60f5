"""Lines that cannot be read go to a side output: those of rows, though all other lines are columns."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pytest
from tests.unit.datastream.simulated import collected, environment

from penstock.api.output_tag import OutputTag
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.sided_batch import SidedBatch, joined
from penstock.common.typeinfo import Types
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.split_reader import Chunk
from penstock.connectors.files.formats.csv_format import CsvFormat
from penstock.connectors.files.formats.format import RecordFormat, UnreadableLine
from penstock.connectors.files.formats.json_format import JsonLinesFormat
from penstock.connectors.files.source import FileSource, StreamFormat
from penstock.connectors.files.split import FileSplit
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.engine.plan.passes import PASSES
from penstock.engine.plan.plan import Plan, applied
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph
from penstock.engine.runtime.columns.event_time import ColumnSourceOperator
from penstock.engine.runtime.execution_mode import STREAMING
from penstock.testing.conformance.source import check_source

BAD: OutputTag[UnreadableLine] = OutputTag("bad")
COLUMNS = RecordColumns(pyarrow.schema({"i": pyarrow.int64(), "s": pyarrow.string()}))


class Line(msgspec.Struct):
    i: int
    s: str


def csv(on_error: Any) -> CsvFormat[Any]:
    return CsvFormat(["i", "s"], {"i": int}, header=False, on_error=on_error)


def json(on_error: Any) -> JsonLinesFormat[Any]:
    return JsonLinesFormat(Line, on_error=on_error)


def lines(name: str, seed: int, count: int, of_bad: float) -> bytes:
    rng = random.Random(seed)
    good = {"csv": b'%d,"a\nb"\n', "json": b'{"i":%d,"s":"a"}\n'}[name]
    bad = {
        "csv": [b"x,y\n", b"1,2,3\n", b'1,"\xff\nz"\n', b'"a"b,"\n'],
        "json": [b"{\n", b'{"i":"x"}\n', b"\xff\n"],
    }[name]
    return b"".join(rng.choice(bad) if rng.random() < of_bad else good % number for number in range(count))


def parts_of(chunk: Any) -> list[Any]:
    """Return the records of a chunk in order, with pairs of a tag and a line."""
    if isinstance(chunk, list):
        return [msgspec.to_builtins(one) if isinstance(one, Line) else one for one in chunk]
    if isinstance(chunk, pyarrow.RecordBatch):
        return chunk.to_pylist()
    found: list[Any] = chunk.batch.to_pylist()
    for at, side in zip(chunk.positions, chunk.sides, strict=True):
        found.insert(at, side)
    return found


FORMATS = {"csv": csv, "json": json}


@pytest.mark.parametrize("of_bad", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", FORMATS)
def test_lines_are_those_of_rows(tmp_path: Path, name: str, seed: int, of_bad: float) -> None:
    """A line would be lost, or be another one, by the move of a job to columns."""
    path = tmp_path / "a"
    path.write_bytes(lines(name, seed, 300, of_bad))
    split, skipped = FileSplit(str(path), 0, None, 0), []
    found: list[list[Any]] = []
    for records_of in (FORMATS[name](BAD), FORMATS[name](BAD).on_columns(COLUMNS)):
        assert records_of is not None
        found.append([one for chunk in records_of.read(split, skipped.append) for one in parts_of(chunk.values)])
    assert found[0] == found[1]
    bad = [line for line in found[0] if isinstance(line, tuple)]
    assert len(skipped) == 2 * len(bad) > 0
    emitted = [one for chunk in FORMATS[name]("emit").read(split, skipped.append) for one in chunk.values]
    assert [line for _, line in bad] == [line for line in emitted if isinstance(line, UnreadableLine)]


@pytest.mark.parametrize("on_error", [BAD, "skip"])
@pytest.mark.parametrize("name", FORMATS)
def test_pieces_of_blocks_are_those_of_rows(tmp_path: Path, name: str, on_error: Any) -> None:
    """A record between two pieces of a block, or one that is longer than a piece, would be lost."""
    long = {"csv": b'7,"%s"\n' % (b"a\n" * 60_000), "json": b'{"i":7,"s":"%s"}\n' % (b"a" * 120_000)}[name]
    path = tmp_path / "a"
    path.write_bytes(lines(name, 1, 9_000, 0.0005) + long + lines(name, 2, 60_000, 0.0001) + long)
    found = []
    for records_of in (FORMATS[name](on_error), FORMATS[name](on_error).on_columns(COLUMNS)):
        assert records_of is not None
        split, skipped = FileSplit(str(path), 0, None, 0), []
        read = [one for chunk in records_of.read(split, skipped.append) for one in parts_of(chunk.values)]
        found.append((read, len(skipped)))
    assert found[0] == found[1]
    assert found[0][1] > 2


class ThroughSides(RecordFormat[Any]):
    """Reads batches with sides, and returns their records."""

    def __init__(self, records: Any) -> None:
        self._records = records

    def is_splittable(self, path: str) -> bool:
        return False

    def read(self, split: FileSplit, skipped: Any) -> Any:
        for chunk in self._records.on_columns(COLUMNS).read(split, skipped):
            yield Chunk([str(one) for one in parts_of(chunk.values)], chunk.position)


@pytest.mark.parametrize("name", FORMATS)
def test_positions_inside_batches(tmp_path: Path, name: str) -> None:
    """A restart would read lines again, or leave some out."""
    (tmp_path / "a").write_bytes(lines(name, 1, 40, 0.3))
    records = ThroughSides(FORMATS[name](BAD))
    check_source(lambda: FileSource.for_record_stream_format(records, tmp_path).build(), max_records=3)


def test_parts_of_a_batch_are_those_of_the_list_of_its_records() -> None:
    """A restart inside a chunk would lose a line."""
    rng = random.Random(3)
    for _ in range(200):
        parts = []
        for _ in range(rng.randrange(1, 4)):
            rows, sides = rng.randrange(4), rng.randrange(4)
            batch = pyarrow.RecordBatch.from_pydict({"i": pyarrow.array([rng.random() for _ in range(rows)], "f8")})
            positions = sorted(rng.sample(range(rows + sides), sides))
            parts.append(SidedBatch(batch, positions, [rng.random() for _ in range(sides)]) if sides else batch)
        whole, expected = joined(parts), [one for part in parts for one in parts_of(part)]
        assert parts_of(whole) == expected
        assert len(whole) == len(expected)
        start, stop = rng.randrange(-1, 14), rng.randrange(-1, 14)
        assert parts_of(whole[start:stop]) == expected[start:stop]
        assert parts_of(whole[start:]) == expected[start:]


def source(env: StreamExecutionEnvironment, path: Path, name: str) -> DataStream[Any]:
    format_ = {
        "csv": StreamFormat.csv_format(["i", "s"], {"i": int}, header=False, as_row=True, on_error=BAD),
        "json": StreamFormat.json_lines_format(Line, on_error=BAD),
    }[name]
    kind = Types.ROW_NAMED(["i", "s"], [Types.LONG(), Types.STRING()])
    files = FileSource.for_record_stream_format(format_, path).build()
    return env.from_source(files, WatermarkStrategy.no_watermarks(), "lines", kind)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("on_columns", [False, True])
def test_a_stream_has_the_lines_in_its_side_output(tmp_path: Path, name: str, on_columns: bool) -> None:
    """A bad line would fail the job, or be among the records."""
    (tmp_path / "a").write_bytes(lines(name, 1, 50, 0.2))
    env = environment()
    stream = source(env, tmp_path, name)
    records = stream.as_columns(COLUMNS.schema) if on_columns else stream
    found = collected(records.map(str).union(stream.get_side_output(BAD).map(str)))
    rows = list(FORMATS[name](BAD).read(FileSplit(str(tmp_path / "a"), 0, None, 0), [].append))
    bad = [str(one[1]) for chunk in rows for one in chunk.values if isinstance(one, tuple)]
    assert sorted(one for one in found if one.startswith("UnreadableLine")) == sorted(bad)
    assert len(found) == sum(len(chunk.values) for chunk in rows)


def test_the_source_reads_columns_though_it_has_a_side_output(tmp_path: Path) -> None:
    """All lines would be rows, because a few may be bad."""
    (tmp_path / "a").write_bytes(b"")
    env = StreamExecutionEnvironment()
    stream = source(env, tmp_path, "csv")
    stream.as_columns(COLUMNS.schema).map_batches(lambda batch: batch).print()
    stream.get_side_output(BAD).print()
    graph = StreamGraph(env._sinks, GraphSettings())
    plan = applied(Plan(graph.nodes, graph.edges, True), PASSES[STREAMING])[0]
    assert any(type(node.operator) is ColumnSourceOperator for node in plan.nodes.values())
    tags = [edge.tag for edge in plan.edges if type(plan.nodes[edge.source].operator) is ColumnSourceOperator]
    assert sorted(tags, key=str) == [None, BAD]


def test_what_happens_to_a_bad_line_is_checked() -> None:
    """A typo would only be seen at the first bad line."""
    with pytest.raises(ValueError, match="'fail', 'skip', 'emit' or an OutputTag, got 'side'"):
        csv("side")
