"""Create the class archive of class_archive.py immediately, unless one exists that fits: `python -m ...`.

Runs the smallest job of each mode; then the JVM writes the classes that it has loaded. Takes 10 to 20 s of CPU time.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from penstock.common.configuration import Configuration
from penstock.common.files.cache_directory import cache_directory
from penstock.hosts.spark.driver.class_archive import SWITCH, ClassArchive, builder_lock
from penstock.hosts.spark.driver.java import find_java
from penstock.hosts.spark.driver.pipelined_query import start_query
from penstock.hosts.spark.driver.session import KEEP_SWITCH, session_for
from penstock.hosts.spark.rows import ROW_TYPE, to_batch

_QUERY_SECONDS = 8
_WAIT_S = 120.0
"""A program that runs longer is a service: its start is not repeated soon, and its machine has time (seconds)."""
_LOOK_S = 0.5
_LOWEST_PRIORITY = 19


def build() -> bool:
    """Run the jobs in a session whose JVM writes the archive when this process ends.

    Returns False, and does nothing, if an archive exists that fits.
    """
    os.environ.update({SWITCH: "on", KEEP_SWITCH: "false"})
    archive = ClassArchive(find_java(os.environ), os.environ)
    if archive.is_used:
        return False
    # Also replace an archive of another environment: the caller needs it for this one.
    archive.remove()
    print("Creating an archive of Spark's classes, once for this version: later starts are faster ...", flush=True)
    spark = session_for(2, True, Configuration(), None)
    _run_batch(spark)
    _run_query(spark)
    return True


def build_after(parent: int) -> None:
    """Build with the lowest priority when the parent process has ended, or in two minutes.

    Only one process of the user builds at a time.
    """
    os.nice(_LOWEST_PRIORITY)
    try:
        # Not closed: the lock lasts until this process ends, which is when its JVM writes the archive.
        builder_lock(cache_directory(os.environ))
    except OSError:
        return
    until = time.monotonic() + _WAIT_S
    while os.getppid() == parent and time.monotonic() < until:
        time.sleep(_LOOK_S)
    try:
        build()
    except Exception:
        # The same would happen after each further program. `penstock prepare` shows the error.
        ClassArchive(find_java(os.environ), os.environ).give_up()
        raise


def _run_batch(spark: Any) -> None:
    rows = spark.range(0, 4, 1, 2).selectExpr("cast(id as int) target", "cast('' as binary) buffer")
    rows = rows.mapInArrow(_forward, ROW_TYPE)
    rows.repartitionById(2, rows.target).sortWithinPartitions("buffer").mapInArrow(_forward, ROW_TYPE).collect()


def _run_query(spark: Any) -> None:
    query = start_query(spark, (1, 1), [_one_row, _forward_until_stopped])
    time.sleep(_QUERY_SECONDS)
    query.stop()


def _forward(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def _one_row(batches: Iterator[Any]) -> Iterator[Any]:
    yield to_batch([(0, b""), (0, b"")])
    yield from _forward_until_stopped(batches)


def _forward_until_stopped(batches: Iterator[Any]) -> Iterator[Any]:
    with contextlib.suppress(Exception):
        yield from batches
    # The query was stopped. Exit here: PySpark would print a traceback when it writes to the closed pipe.
    os._exit(0)


if __name__ == "__main__":
    build_after(int(sys.argv[1])) if sys.argv[1:] else build()
