"""The plan of a batched job: one Spark job, stage after stage, with a sort shuffle between stages.

Rows are sorted by the first bytes of their buffers (key group, edge, sender, sequence number). So a task reads all rows
of a key group before the next key group, and a task that Spark runs again reads the same input in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.runtime.network.buffer import SORT_PREFIX_BYTES, decode_header, decode_message
from penstock.hosts.spark.internals.settings import PER_BATCH_JOB
from penstock.hosts.spark.payload import Payload
from penstock.hosts.spark.rows import ROW_TYPE
from penstock.hosts.spark.worker.batched_stage import batched_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class BatchedJob:
    """Run a job as a Spark job. `job_group`: the name by which Spark cancels it; `name`: the name in Spark's web UI."""

    def __init__(self, spark: SparkSession, widths: tuple[int, ...], job_group: str, name: str) -> None:
        self._spark = spark
        self._widths = widths
        self._job_group = job_group
        self._name = name

    def run(self, payloads: list[Payload]) -> list[tuple[int, bytes]]:
        """Run the job to its end. Returns, for each slot by level, the attempt that Spark counts, and its reports.

        The results of slots arrive separately (`hosts/spark/driver/batched_run.py`). Raises what Spark raises.
        """
        from pyspark.sql.functions import col, expr

        spark, widths = self._spark, self._widths
        for key, value in PER_BATCH_JOB.items():
            spark.conf.set(key, value)
        spark.sparkContext.setJobGroup(self._job_group, self._name, interruptOnCancel=True)
        # This process can cancel a group. Another process that shares the application can cancel only a tag.
        spark.sparkContext.addJobTag(self._job_group)
        rows = spark.range(0, widths[0], 1, widths[0]).mapInArrow(batched_stage(payloads[0]), ROW_TYPE)
        order = expr(f"substring(buffer, 1, {SORT_PREFIX_BYTES})")
        for width, payload in zip(widths[1:], payloads[1:], strict=True):
            exchanged = rows.repartitionById(width, col("target")).sortWithinPartitions(order)
            rows = exchanged.mapInArrow(batched_stage(payload), ROW_TYPE)
        buffers = [buffer.as_py() for buffer in rows.toArrow().column("buffer")]
        return [decode_message(buffer) for buffer in sorted(buffers, key=_level_and_slot)]

    def cancel(self) -> None:
        """Cancel the Spark job. Has no effect while Spark plans the job: its group is empty until then."""
        self._spark.sparkContext.cancelJobGroup(self._job_group)


def _level_and_slot(buffer: bytes) -> tuple[int, int]:
    header = decode_header(buffer)
    return header.target, header.sender
