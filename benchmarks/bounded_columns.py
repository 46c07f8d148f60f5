"""Bounded streams of declared columns in BATCH mode, beside PySpark's DataFrames: the same results, in one session.

    python -m benchmarks.bounded_columns --rows 10000000 --runs 5

Join, aggregate by key, distinct, a sort of the whole, functions of columns, a running sum, and a function of the rows
of each key (PySpark's is `applyInPandas`, which takes minutes for a million keys: `--only` leaves it out), over rows of
four columns in Parquet files. Both write their result to Parquet files. They run by turns after a turn that is not
counted. Prints medians of wall clock and CPU time (of this process, the JVM and its workers), and how fast penstock is
if PySpark is 1. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as compute

from benchmarks.process_tree import CpuTime
from penstock.common import Types
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

_PARALLELISM = 2
Program = Callable[[Any, Any], Any]
"""(rows, others) -> result: of streams, or of DataFrames."""


def _joined(rows: Any, others: Any) -> Any:
    return rows.join(others).where("key").equal_to("key").select(left=["key", "number", "share"], right=["name"])


def _joined_frame(rows: Any, others: Any) -> Any:
    return rows.join(others, "key").select("key", "number", "share", "name")


def _aggregated(rows: Any, others: Any) -> Any:
    aggregates = {"n": "count", "total": ("number", "sum"), "mean": ("share", "avg"), "most": ("number", "max")}
    return rows.key_by("key").aggregate(aggregates)


def _aggregated_frame(rows: Any, others: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    number = F.col("number")
    of_key = rows.groupBy("key")
    return of_key.agg(F.count("*").alias("n"), F.sum(number), F.avg("share"), F.max(number))


def _distinct(rows: Any, others: Any) -> Any:
    return rows.project("key", "group").distinct()


def _distinct_frame(rows: Any, others: Any) -> Any:
    return rows.select("key", "group").distinct()


def _sorted(rows: Any, others: Any) -> Any:
    return rows.partition_by_range("number").full_window_partition().sort_partition("number")


def _sorted_frame(rows: Any, others: Any) -> Any:
    return rows.repartitionByRange(_PARALLELISM, "number").sortWithinPartitions("number")


def _doubled(batch: Any) -> Any:
    return batch.set_column(0, "number", compute.multiply(batch["number"], 2))


def _is_even(batch: Any) -> Any:
    return compute.equal(compute.bit_wise_and(batch["number"], 2), 0)


def _called(rows: Any, others: Any) -> Any:
    return rows.distinct("key").map_batches(_doubled).filter_batches(_is_even)


def _called_frame(rows: Any, others: Any) -> Any:
    def doubled(batches: Any) -> Any:
        yield from map(_doubled, batches)

    def even(batches: Any) -> Any:
        for batch in batches:
            yield batch.filter(_is_even(batch))

    found = rows.dropDuplicates(["key"])
    return found.mapInArrow(doubled, found.schema).mapInArrow(even, found.schema)


def _running(rows: Any, others: Any) -> Any:
    return rows.project("key", "group", "share").key_by("key").sum("share")


def _running_frame(rows: Any, others: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    return rows.groupBy("key").agg(F.first("group"), F.sum("share"))


_TOTAL = Types.ROW_NAMED(["key", "total"], [Types.LONG(), Types.DOUBLE()])


def _total(rows: Any) -> Iterator[Any]:
    listed = list(rows)
    yield listed[0].key, sum(row.share for row in listed)


def _grouped(rows: Any, others: Any) -> Any:
    return rows.project("key", "share").key_by("key").full_window_partition().map_partition(_total, _TOTAL)


def _grouped_frame(rows: Any, others: Any) -> Any:
    def total(frame: Any) -> Any:
        return frame.groupby("key", as_index=False).sum().rename(columns={"share": "total"})

    return rows.select("key", "share").groupBy("key").applyInPandas(total, "key LONG, total DOUBLE")


PROGRAMS: Mapping[str, tuple[Program, Program]] = {
    "join": (_joined, _joined_frame),
    "aggregate": (_aggregated, _aggregated_frame),
    "distinct": (_distinct, _distinct_frame),
    "sort": (_sorted, _sorted_frame),
    "functions": (_called, _called_frame),
    "running": (_running, _running_frame),
    "groups": (_grouped, _grouped_frame),
}
"""Each for streams, and for DataFrames."""


def frames_of(spark: Any, rows: int, directory: str) -> tuple[Any, Any]:
    """Write the inputs, and return them: the rows, and one row for each tenth key."""
    keys = max(1, rows // 10)
    numbered = spark.range(0, rows, 1, 8)
    hashed = f"pmod(hash(id), {keys})"
    columns = ("number", f"CAST({hashed} AS BIGINT) AS key", "id % 3 AS group", "id / 4 AS share")
    numbered.selectExpr("shiftright(xxhash64(id), 24) AS number", *columns[1:]).write.parquet(f"{directory}/rows")
    named = spark.range(0, keys, 10, 8).selectExpr("id AS key", "concat('name-', id) AS name")
    named.write.parquet(f"{directory}/others")
    return spark.read.parquet(f"{directory}/rows"), spark.read.parquet(f"{directory}/others")


def by_penstock(program: Program, rows: Any, others: Any, directory: str) -> None:
    """Run a program of streams."""
    env = StreamExecutionEnvironment.get_execution_environment(spark=rows.sparkSession)
    env.set_parallelism(_PARALLELISM).set_runtime_mode(RuntimeExecutionMode.BATCH)
    program(env.from_data_frame(rows), env.from_data_frame(others)).to_data_frame(directory=directory)


def by_spark(program: Program, rows: Any, others: Any, directory: str) -> None:
    """Run a program of DataFrames."""
    program(rows, others).write.parquet(directory)


def compared(name: str, rows: Any, others: Any, runs: int) -> dict[str, float]:
    """Run both programs by turns. Returns medians in seconds, and the ratios of speed."""
    ways = dict(zip(("penstock", "spark"), zip((by_penstock, by_spark), PROGRAMS[name], strict=True), strict=True))
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    cpu = CpuTime()
    for turn in range(runs + 1):
        for way, (run, program) in ways.items():
            with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
                began_s, used_s = time.monotonic(), cpu.sample()
                run(program, rows, others, f"{folder}/result")
                if turn:
                    found[way].append((time.monotonic() - began_s, cpu.sample() - used_s))
    medians = {
        f"{way}_{what}_s": statistics.median(one[position] for one in found[way])
        for way in ways
        for position, what in enumerate(("wall", "cpu"))
    }
    ratios = {f"{what}_ratio": medians[f"spark_{what}_s"] / medians[f"penstock_{what}_s"] for what in ("wall", "cpu")}
    return {name: round(value, 3) for name, value in {**medians, **ratios}.items()}


def _print_plans(name: str, rows: Any, others: Any) -> None:
    program, program_of_frames = PROGRAMS[name]
    env = StreamExecutionEnvironment.get_execution_environment(spark=rows.sparkSession)
    env.set_parallelism(_PARALLELISM).set_runtime_mode(RuntimeExecutionMode.BATCH)
    stream = program(env.from_data_frame(rows), env.from_data_frame(others))
    part = env.data_frame_of(stream._transformation)
    assert part is not None, f"{name} is not a DataFrame"
    for way, frame in {"penstock": part.frame, "spark": program_of_frames(rows, others)}.items():
        print(f"--- {name}, {way}", flush=True)
        frame.explain()


def main() -> None:
    """Print a line of JSON for each program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=5, help="of each, that are counted")
    parser.add_argument("--only", choices=PROGRAMS, action="append")
    parser.add_argument("--plans", action="store_true", help="print both physical plans, and run nothing")
    arguments = parser.parse_args()
    spark = StreamExecutionEnvironment.get_execution_environment().get_spark_session(_PARALLELISM)
    # As in a session of PySpark's own: penstock's have it off, for its jobs.
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        rows, others = frames_of(spark, arguments.rows, str(Path(folder, "input")))
        for name in arguments.only or PROGRAMS:
            if arguments.plans:
                _print_plans(name, rows, others)
                continue
            print(json.dumps({"program": name, **compared(name, rows, others, arguments.runs)}), flush=True)


if __name__ == "__main__":
    main()
