"""map_batches with pandas beside Spark's mapInPandas: a Parquet file, a function of frames, a Parquet file.

Both read and write the same columns with the same function, on two cores, one after the other in one run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy
import pyarrow
from pyarrow import parquet

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, FileSource
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat

_GROUP = 1 << 17
TRIP = Types.ROW_NAMED(
    ["id", "zone", "distance", "fare", "paid"],
    [Types.LONG(), Types.LONG(), Types.DOUBLE(), Types.DOUBLE(), Types.STRING()],
)


def with_tip(frame: Any) -> Any:
    """Return the frame with a fare that has a tip."""
    return frame.assign(fare=frame["fare"] * 1.15 + frame["distance"])


def write_input(path: Path, rows: int) -> None:
    """Write trips, a row group at a time."""
    random, writer = numpy.random.default_rng(1), None
    for first in range(0, rows, _GROUP):
        count = min(_GROUP, rows - first)
        table = pyarrow.table(
            {
                "id": numpy.arange(first, first + count),
                "zone": random.integers(0, 265, count),
                "distance": random.random(count) * 30,
                "fare": random.random(count) * 80,
                "paid": numpy.array(["card", "cash", "none"])[random.integers(0, 3, count)],
            }
        )
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def penstock(source: Path, target: Path) -> None:
    """Run the job in penstock."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    files = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(TRIP), source).build()
    trips = env.from_source(files, WatermarkStrategy.no_watermarks(), "trips", type_info=TRIP).as_columns()
    sink = FileSink.for_bulk_format(target, ParquetBulkWriters.for_row_type(TRIP)).build()
    trips.map_batches(with_tip, "pandas").sink_to(sink)
    env.execute("batches")


def spark(source: Path, target: Path) -> None:
    """Run the job in Spark."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    frame = session.read.parquet(str(source))
    frame.mapInPandas(lambda frames: map(with_tip, frames), frame.schema).write.parquet(str(target))


JOBS = {"penstock": penstock, "spark": spark}


def rates(name: str, source: Path, rows: int, runs: int) -> list[float]:
    """Return rows/s of each run but the first, which starts the JVM and its compiler."""
    found = []
    for run in range(runs + 1):
        target = source.with_name(f"{name}-{run}")
        began = time.perf_counter()
        JOBS[name](source, target)
        took = time.perf_counter() - began
        files = [path for path in target.rglob("part-*") if path.is_file()]
        assert sum(parquet.read_metadata(path).num_rows for path in files) == rows, name
        shutil.rmtree(target)
        if run:
            found.append(rows / took)
    return found


def main() -> None:
    """Measure, by the options: each in a process of its own, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", choices=JOBS, help="only this one, with the file --source")
    parser.add_argument("--source", type=Path)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(rates(arguments.one, arguments.source, arguments.rows, arguments.runs)))
        return
    medians = {}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "trips.parquet")
        write_input(source, arguments.rows)
        for name in JOBS:
            options = ["--one", name, "--source", str(source), "--rows", str(arguments.rows)]
            command = [sys.executable, "-m", "benchmarks.batches", *options, "--runs", str(arguments.runs)]
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            medians[name] = statistics.median(json.loads(printed.splitlines()[-1]))
    print(json.dumps({**medians, "ratio": medians["penstock"] / medians["spark"]}, indent=1))


if __name__ == "__main__":
    main()
