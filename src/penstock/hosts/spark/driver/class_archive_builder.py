"""Makes the class archive of class_archive.py at once: `python -m ...`. Nothing, if there is one that fits.

It runs the smallest job of each mode, and lets the JVM write the classes it has loaded. Takes ten seconds of CPU time,
or twenty.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

from penstock.common.configuration import Configuration
from penstock.hosts.spark.driver.class_archive import SWITCH, ClassArchive
from penstock.hosts.spark.driver.java import find_java
from penstock.hosts.spark.driver.pipelined_query import start_query
from penstock.hosts.spark.driver.session import session_for
from penstock.hosts.spark.rows import ROW_TYPE, to_batch

_QUERY_SECONDS = 8


def build() -> None:
    """Run the jobs in a session whose JVM writes the archive when this process ends."""
    os.environ[SWITCH] = "on"
    archive = ClassArchive(find_java(os.environ), os.environ)
    if archive.is_used:
        return
    # One of another environment, too: who calls this wants it for this one.
    archive.forget()
    print("Making an archive of Spark's classes, once for this version: all later starts are faster ...", flush=True)
    spark = session_for(2, True, Configuration(), None)
    _run_batch(spark)
    _run_query(spark)


def _run_batch(spark: Any) -> None:
    rows = spark.range(0, 4, 1, 2).selectExpr("cast(id as int) target", "cast('' as binary) buffer")
    rows = rows.mapInArrow(_pass_on, ROW_TYPE)
    rows.repartitionById(2, rows.target).sortWithinPartitions("buffer").mapInArrow(_pass_on, ROW_TYPE).collect()


def _run_query(spark: Any) -> None:
    query = start_query(spark, (1, 1), [_one_row, _pass_on_until_stopped])
    time.sleep(_QUERY_SECONDS)
    query.stop()


def _pass_on(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def _one_row(batches: Iterator[Any]) -> Iterator[Any]:
    yield to_batch([(0, b""), (0, b"")])
    yield from _pass_on_until_stopped(batches)


def _pass_on_until_stopped(batches: Iterator[Any]) -> Iterator[Any]:
    with contextlib.suppress(Exception):
        yield from batches
    # The query is stopped: PySpark would fail to write to its closed pipe, with a traceback.
    os._exit(0)


if __name__ == "__main__":
    build()
