"""Builds the class archive of class_archive.py, in a process of its own: `python -m ... [ARCHIVE]`.

Without an argument it builds the one that programs of this environment use, unless it is there.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.common.configuration import Configuration
from penstock.spark.driver.class_archive import BUILDING, archive_of, half_made, locked, prune, remove_half_made
from penstock.spark.driver.java import find_java
from penstock.spark.driver.pipelined_query import start_query
from penstock.spark.driver.session import session_for
from penstock.spark.internals.jvm import stop_and_end_jvm
from penstock.spark.rows import ROW_TYPE, to_batch

_QUERY_SECONDS = 8


def build(archive: Path) -> None:
    """Run the smallest job of each mode, and let the JVM write the classes it has loaded to `archive`.

    Takes a minute of CPU time; lowers the priority of this process.
    """
    os.nice(19)
    temporary = half_made(archive)
    os.environ[BUILDING] = str(temporary)
    spark = session_for(2, True, Configuration(), None)
    _run_batch(spark)
    _run_query(spark)
    stop_and_end_jvm(spark)
    # A JVM that starts at this moment sees no archive, or the whole one.
    temporary.replace(archive)
    prune(archive.parent)


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
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else archive_of(find_java(os.environ), os.environ)
    remove_half_made(target)
    # Else another process builds it.
    with contextlib.suppress(BlockingIOError), locked(target):
        if not target.exists():
            build(target)
