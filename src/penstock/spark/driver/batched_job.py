"""The plan of a batched job: one Spark job, stage after stage, sort shuffle between them.

Rows are sorted by the first bytes of their buffers (key group, edge, sender, sequence number). So a task has finished
one key group when the next starts, and if Spark reruns it, it gets the same input in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.runtime.network.buffer import SORT_PREFIX_BYTES, decode_results
from penstock.spark.internals.settings import PER_BATCH_JOB
from penstock.spark.payload import Payload
from penstock.spark.rows import ROW_TYPE
from penstock.spark.worker.batched_stage import batched_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_batched(
    spark: SparkSession, widths: tuple[int, ...], payloads: list[Payload], job_group: str, name: str
) -> Iterator[tuple[int, int, list[Any]]]:
    """Run the job to its end, then give its results: (sink, subtask, values).

    Results are those of the runs that Spark counts as successful, one per task. Raises what Spark raises.
    """
    from pyspark.sql.functions import col, expr

    for key, value in PER_BATCH_JOB.items():
        spark.conf.set(key, value)
    spark.sparkContext.setJobGroup(job_group, name, interruptOnCancel=True)
    rows = spark.range(0, widths[0], 1, widths[0]).mapInArrow(batched_stage(payloads[0]), ROW_TYPE)
    order = expr(f"substring(buffer, 1, {SORT_PREFIX_BYTES})")
    for width, payload in zip(widths[1:], payloads[1:], strict=True):
        exchanged = rows.repartitionById(width, col("target")).sortWithinPartitions(order)
        rows = exchanged.mapInArrow(batched_stage(payload), ROW_TYPE)
    results = rows.toArrow()
    for buffer in results.column("buffer"):
        yield from decode_results(buffer.as_py())
