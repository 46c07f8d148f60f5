"""The plan of a batched job: one Spark job, stage after stage, sort shuffle between them.

Rows are sorted by the first bytes of their buffers (key group, edge, sender, sequence number). So a task has all of one
key group when the next starts, and if Spark reruns it, it gets the same input in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.runtime.network.buffer import SORT_PREFIX_BYTES, decode_header, decode_segments
from penstock.spark.internals.settings import PER_BATCH_JOB
from penstock.spark.payload import Payload
from penstock.spark.rows import ROW_TYPE
from penstock.spark.worker.batched_stage import batched_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_batched(
    spark: SparkSession, widths: tuple[int, ...], payloads: list[Payload], job_group: str, name: str
) -> list[tuple[int, bytes]]:
    """Run the job to its end. Returns for each slot, level by level, the run that Spark counts, and its reports.

    Their results have come on another way (`spark/driver/batched_results.py`). Raises what Spark raises.
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
    buffers = [buffer.as_py() for buffer in rows.toArrow().column("buffer")]
    outcomes = []
    for buffer in sorted(buffers, key=_level_and_slot):
        for segment in decode_segments(buffer):
            assert isinstance(segment, tuple)
            outcomes += segment[0]
    return outcomes


def _level_and_slot(buffer: bytes) -> tuple[int, int]:
    header = decode_header(buffer)
    return header.target, header.sender
