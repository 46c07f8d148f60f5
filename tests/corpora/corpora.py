"""The corpora: which files they have, by which reader of penstock each is read, and by which reference."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.corpora.avro_reference import avro_records
from tests.corpora.case import Case, NotComparedError, records
from tests.corpora.csv_dialects import sniffed
from tests.corpora.duckdb_reference import parquet_rows
from tests.corpora.orc_reference import as_printed, with_maps

from penstock.common.errors import SourceError
from penstock.datastream.connectors.file_system import BulkFormat, StreamFormat
from penstock.datastream.formats.json import JsonDeserializationSchema

_OF_CSV = {".csv", ".tsv", ".tbl"}


class Corpus(NamedTuple):
    """`repository`: where it is from; `folder`: of it, below the folder of all corpora."""

    folder: str
    repository: str
    cases: Callable[[Path], Iterator[Case]]


def _parquet(folder: Path, below: str = "") -> Iterator[Case]:
    for path in sorted((folder / below).rglob("*.parquet*")):
        # The map needs gigabytes of memory as values of Python.
        if path.suffix in (".parquet", ".encrypted") and path.name != "large_string_map.brotli.parquet":
            yield Case(
                str(path.relative_to(folder)),
                _all(BulkFormat.parquet_format(), path),
                _of(parquet_rows, path),
                path.name,
            )


def _orc(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("examples/*.orc")) + sorted(folder.glob("examples/corrupt/*.orc")):
        expected = folder / "examples" / "expected" / f"{path.stem}.jsn.gz"
        name = str(path.relative_to(folder))
        yield Case(
            name,
            lambda path=path, expected=expected: _printed(path, expected),
            _of(_printed_by_orc, expected),
            path.name,
        )


def _printed(path: Path, expected: Path) -> list[Any]:
    printed = _printed_by_orc(expected)
    found = records(BulkFormat.orc_format(), path)
    return [as_printed(record, printed[row] if row < len(printed) else None) for row, record in enumerate(found)]


def _printed_by_orc(path: Path) -> list[Any]:
    if not path.exists():
        raise NotComparedError("the corpus has no values of it")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [with_maps(json.loads(line)) for line in lines]


def _avro(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.rglob("*.avro")):
        yield Case(
            str(path.relative_to(folder)), _all(BulkFormat.avro_format(), path), _of(avro_records, path), path.name
        )


def _csv_spectrum(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("csvs/*.csv")):
        expected = folder / "json" / f"{path.stem}.json"
        yield Case(path.name, _all(StreamFormat.csv_format(), path), _of(_json, expected), path.name)


def _duckdb(folder: Path) -> Iterator[Case]:
    yield from _parquet(folder, "data/parquet-testing")
    for path in sorted((folder / "data" / "csv").rglob("*")):
        if path.is_file() and set(path.suffixes) & _OF_CSV:
            yield Case(str(path.relative_to(folder)), *sniffed(path), path.name)


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _json_suite(folder: Path) -> Iterator[Case]:
    schema = JsonDeserializationSchema()

    def message(path: Path) -> Any:
        try:
            return schema.deserialize(path.read_bytes())
        except Exception as error:
            # The source of the messages names where each is from.
            raise SourceError(f"{path.name}: {error}") from None

    def lines(path: Path) -> Any:
        return records(StreamFormat.json_lines_format(), path)

    for path in sorted(folder.glob("test_parsing/*.json")) + sorted(folder.glob("test_transform/*.json")):
        name = str(path.relative_to(folder))
        yield Case(f"{name} as a message", _of(message, path), _of(_strict_json, path), path.name)
        if not {b"\n", b"\r"} & set(map(bytes, zip(path.read_bytes()))) and path.stat().st_size:
            yield Case(f"{name} as a line", _of(lines, path), lambda path=path: [_strict_json(path)], path.name)  # type: ignore[misc]


def _strict_json(path: Path) -> Any:
    """As Python reads it, by the name of the file: the suite says what must be refused."""

    def refused(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    value = json.loads(path.read_bytes().decode("utf-8"), parse_constant=refused)
    if path.name.startswith("n_"):
        raise ValueError("the suite says that it is not JSON")
    return value


def _all(file_format: Any, path: Path) -> Callable[[], Any]:
    return lambda: records(file_format, path)


def _of(call: Callable[[Path], Any], path: Path) -> Callable[[], Any]:
    return lambda: call(path)


CORPORA = [
    Corpus("parquet-testing", "apache/parquet-testing", _parquet),
    Corpus("orc", "apache/orc", _orc),
    Corpus("avro", "apache/avro", _avro),
    Corpus("fastavro", "fastavro/fastavro", _avro),
    Corpus("csv-spectrum", "max-mapper/csv-spectrum", _csv_spectrum),
    Corpus("duckdb", "duckdb/duckdb", _duckdb),
    Corpus("JSONTestSuite", "nst/JSONTestSuite", _json_suite),
]
