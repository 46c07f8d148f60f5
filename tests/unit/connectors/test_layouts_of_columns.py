"""Views of texts and encoded runs, which most of Arrow's functions do not know, and what other programs write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars
import pyarrow
import pytest
from pyarrow import compute, parquet
from tests.unit.connectors.read_as_columns import batches, rows
from tests.unit.datastream.simulated import collected, environment

from penstock.common import Row
from penstock.common.columns.layouts import has_other_layout, in_usual_layout, usual_layout
from penstock.common.columns.record_columns import RecordColumns
from penstock.connectors.files.formats.parquet_format import ParquetFormat
from penstock.connectors.files.split import FoundFile, whole

TEXT, VIEW = pyarrow.string(), pyarrow.string_view()
USUAL = {
    "text": pyarrow.array(["a", None, "a longer text than a view has", ""]),
    "data": pyarrow.array([b"a", None, b"\xff" * 20, b""]),
    "list": pyarrow.array([[1, 5], None, [2, None, 4], []], pyarrow.list_(pyarrow.int64())),
    "run": pyarrow.array([1, 1, None, 2]),
    "of texts": pyarrow.array([{"a": "x"}, {"a": None}, None, {"a": "y"}], pyarrow.struct({"a": TEXT})),
    "category": pyarrow.array(["u", None, "u", "v"]).dictionary_encode(),
}
OTHER = {
    "text": USUAL["text"].cast(VIEW),
    "data": USUAL["data"].cast(pyarrow.binary_view()),
    "list": pyarrow.array(USUAL["list"].to_pylist(), pyarrow.list_view(pyarrow.int64())),
    "run": compute.run_end_encode(USUAL["run"]),
    "of texts": pyarrow.array(USUAL["of texts"].to_pylist(), pyarrow.struct({"a": VIEW})),
    "category": pyarrow.DictionaryArray.from_arrays(USUAL["category"].indices, USUAL["category"].dictionary.cast(VIEW)),
}


@pytest.mark.parametrize("name", USUAL)
@pytest.mark.parametrize("start", [0, 1])
def test_values_are_the_same_in_the_usual_layout(name: str, start: int) -> None:
    """A value would change: Arrow's own cast of views of lists returns others."""
    given, usual = OTHER[name].slice(start), USUAL[name].slice(start)
    assert has_other_layout(given.type)
    assert not has_other_layout(usual.type)
    assert usual_layout(given.type) == usual.type
    found = in_usual_layout(given)
    found.validate(full=True)
    assert found.type == usual.type
    assert found.to_pylist() == given.to_pylist() == usual.to_pylist()


def test_a_sorted_map_has_the_usual_layout() -> None:
    """A schema of a file would be refused, though all functions know its types."""
    assert not has_other_layout(pyarrow.map_(TEXT, pyarrow.int64(), keys_sorted=True))
    assert has_other_layout(pyarrow.map_(TEXT, pyarrow.list_(VIEW)))


@pytest.mark.parametrize("name", USUAL)
def test_a_frame_of_any_layout_is_that_of_the_usual_one(name: str) -> None:
    """A filter of a job would fail on a column of Polars, or its rows would be others than those of the frame."""
    env = environment()
    frames = [pyarrow.table({name: column[name]}) for column in (OTHER, USUAL)]
    by_rows = [collected(env.from_data_frame(frame)) for frame in frames]
    assert by_rows[0] == by_rows[1]
    streams = [env.from_data_frame(frame).as_columns() for frame in frames]
    kept = [collected(one.map_batches(lambda batch: batch.filter(batch[name].is_valid()))) for one in streams]
    assert kept[0] == kept[1] == [row for row in by_rows[0] if row[0] is not None]


def test_polars_views_become_texts() -> None:
    """Arrow's interface to frames of Polars has views, by which a filter failed."""
    frame = polars.DataFrame({"s": ["a", None], "c": polars.Series(["u", "v"], dtype=polars.Categorical)})
    table = pyarrow.table(frame)
    assert table.schema.field("s").type == VIEW
    env = environment()
    streams = [env.from_data_frame(one).as_columns() for one in (frame, table, frame.to_pandas())]
    for stream in streams:
        assert collected(stream.map_batches(lambda batch: batch.slice(0, 1))) == [Row(s="a", c="u")]


@pytest.mark.parametrize("name", USUAL)
def test_a_declared_schema_of_another_layout_is_refused(name: str) -> None:
    """The job would fail in Arrow's words when the first filter runs."""
    schema = pyarrow.schema({"n": pyarrow.int64(), name: OTHER[name].type})
    stream = environment().from_collection([{"n": 1, name: None}])
    usual = str(USUAL[name].type).split("<")[0]
    with pytest.raises(TypeError, match=rf"the column '{name}' has the type .*: declare {usual}.* schema.set\(1, "):
        stream.as_columns(schema)
    columns = stream.as_columns(pyarrow.schema({"n": pyarrow.int64()}))
    with pytest.raises(TypeError, match=f"the column '{name}' has the type"):
        columns.map_batches(lambda batch: batch, output_type=schema)


WRITTEN = [
    *((name, OTHER[name]) for name in ("text", "data", "list", "of texts")),
    ("text", USUAL["text"].cast(pyarrow.large_string())),
    ("data", USUAL["data"].cast(pyarrow.large_binary())),
    ("list", USUAL["list"].cast(pyarrow.large_list(pyarrow.int64()))),
    ("list", pyarrow.array(USUAL["list"].to_pylist(), pyarrow.large_list(pyarrow.int32()))),
    ("category", USUAL["category"]),
]


@pytest.mark.parametrize(("name", "column"), WRITTEN)
def test_files_of_any_layout_are_read_as_rows_are(tmp_path: Path, name: str, column: pyarrow.Array) -> None:
    """Files of Polars have large texts, and those of Arrow the layout of the table that was written."""
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({name: column}), path)
    wanted = TEXT if name == "category" else USUAL[name].type
    split = whole(FoundFile(str(path), path.stat().st_size))
    columns = RecordColumns(pyarrow.schema({name: wanted}))
    found = batches(ParquetFormat(), split, columns)
    assert found == rows(ParquetFormat(), split, columns)
    assert [one[name] for one in found[0]] == USUAL[name].to_pylist()


def test_files_of_polars_make_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of Polars' files cost a Python object each."""

    def refuse(*_: Any) -> None:
        raise AssertionError("a record was made")

    monkeypatch.setattr("penstock.connectors.files.formats.selected_columns.named_batch", refuse)
    path = tmp_path / "a.parquet"
    data = {"s": ["a", None], "b": [b"x", b""], "l": [["a"], []], "n": [1, 2]}
    polars.DataFrame(data).with_columns(c=polars.col("s").cast(polars.Categorical)).write_parquet(path)
    kinds = {
        "s": TEXT, "b": pyarrow.binary(), "l": pyarrow.list_(TEXT), "n": pyarrow.int64(), "c": TEXT,
    }  # fmt: skip
    split = whole(FoundFile(str(path), path.stat().st_size))
    [*found], _ = batches(ParquetFormat(), split, RecordColumns(pyarrow.schema(kinds)))
    assert [list(row.values()) for row in found] == [["a", b"x", ["a"], 1, "a"], [None, b"", [], 2, None]]
