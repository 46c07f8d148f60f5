"""The flights job as a program that writes its results to files: what test_kills.py starts, kills and reads.

How rows are written and read again is all here: `sink` and `committed`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow.parquet as pq

from penstock.datastream import DataStream
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock_examples.flights.disorder import disorder
from penstock_examples.flights.flights import read_reports
from penstock_examples.flights.job import Settings, build, counts_by_feed


def results(events: int, batched: bool, parallelism: int, reports_per_s: float = 0) -> DataStream[tuple[str, Any]]:
    """The results of the first `events` reports. Whatever is out of order is waited for: all runs give the same."""
    reports = read_reports().first(events)
    settings = Settings(batched, parallelism, disorder(reports).most_ms, reports_per_s=reports_per_s)
    return build(counts_by_feed(reports), settings)


class Line(NamedTuple):
    """A row of the files."""

    text: str


def row(result: tuple[str, Any]) -> str:
    """A result as a line of JSON."""
    name, value = result
    return msgspec.json.encode([name, msgspec.to_builtins(value)]).decode()


def sink(out: Path) -> FileSink:
    """Where rows go."""
    return FileSink.for_bulk_format(out, ParquetBulkWriters.for_records(Line)).build()


def committed_files(out: Path) -> Iterator[Path]:
    """The files that a reader would see."""
    for path in out.rglob("*"):
        inside = path.relative_to(out).parts
        # A file that is published while somebody looks is not seen by this look.
        if path.is_file() and not any(part.startswith((".", "_")) for part in inside):
            yield path


def committed(out: Path) -> Iterator[str]:
    """The rows in them."""
    for path in committed_files(out):
        yield from pq.read_table(path).column("text").to_pylist()


def main() -> None:
    """Run it, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--reports-per-s", type=float, default=0)
    arguments = parser.parse_args()
    stream = results(arguments.events, False, arguments.parallelism, arguments.reports_per_s)
    lines = stream.map(lambda result: Line(row(result))).name("rows").uid("rows")
    lines.sink_to(sink(arguments.out)).uid("files")
    stream.get_execution_environment().execute("flights to files")


if __name__ == "__main__":
    main()
