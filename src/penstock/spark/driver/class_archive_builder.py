"""Makes the class archive of class_archive.py at once: `python -m ...`. Nothing, if there is one that fits.

It runs the smallest job of each mode, and lets the JVM write the classes it has loaded. Takes ten seconds of CPU time,
or twenty.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from penstock.common.configuration import Configuration
from penstock.spark.driver.class_archive import SWITCH, ClassArchive
from penstock.spark.driver.java import find_java
from penstock.spark.driver.pipelined_query import start_query
from penstock.spark.driver.session import session_for
from penstock.spark.rows import ROW_TYPE, to_batch

_QUERY_SECONDS = 8


def build() -> None:
    """Run the jobs in a session whose JVM writes the archive when this process ends."""
    os.environ[SWITCH] = "on"
    archive = ClassArchive(find_java(os.environ), os.environ)
    if archive.is_used:
        return
    # One of another environment, too: who calls this wants it for this one.
    archive.forget()
    spark = session_for(2, True, Configuration(), None)
    _run_batch(spark)
    _run_query(spark)


def _run_batch(spark: Any) -> None:
    rows = spark.range(0, 4, 1, 2).selectExpr("cast(id as int) target", "cast('' as binary) buffer")
    rows = rows.mapInArrow(_pass_on, ROW_TYPE)
    rows.repartitionById(2, rows.target).sortWithinPartitions("buffer").mapInArrow(_pass_on, ROW_TYPE).collect()


def _run_query(spark: Any) -> None:
    query = start_query(spark, (1, 1), [_one_row, _pass_on])
    time.sleep(_QUERY_SECONDS)
    query.stop()


def _pass_on(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def _one_row(batches: Iterator[Any]) -> Iterator[Any]:
    yield to_batch([(0, b""), (0, b"")])
    yield from batches


if __name__ == "__main__":
    build()
