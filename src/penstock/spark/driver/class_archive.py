"""A class-data-sharing archive of Spark's classes: with it the first record of a job takes two thirds of the time.

Most of a start goes into loading and verifying ten thousand classes of Spark. The JVM can write them to a file once and
map that file from then on. The file fits one Java and one PySpark, has some 170 MB and is kept in the user's cache. It
is built in the background, at low priority, after the first program that has started a session has ended.
PENSTOCK_CLASS_ARCHIVE=off in the environment prevents both building and using it.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.spark.driver.java import JavaHome, cache_directory
from penstock.spark.internals.jvm import stop_and_end_jvm
from penstock.spark.rows import ROW_TYPE, to_batch

_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
_STALE_SECONDS = 600
_BUILDING = "PENSTOCK_CLASS_ARCHIVE"
_QUERY_SECONDS = 8


def java_options(java: JavaHome, environ: Mapping[str, str]) -> str:
    """Options for the driver's JVM: use the archive, or write one when the JVM exits (only in the building process).

    If there is no archive yet, one will be built after this program.
    """
    setting = environ.get(_BUILDING, "")
    if setting == "off":
        return ""
    if setting:
        return f"-XX:ArchiveClassesAtExit={setting} {_QUIET}"
    archive = _path(java, environ)
    if archive.exists():
        return f"-XX:SharedArchiveFile={archive} {_QUIET}"
    atexit.register(_build_in_background, archive)
    return ""


def _path(java: JavaHome, environ: Mapping[str, str]) -> Path:
    import pyspark

    # The JVM refuses an archive that was made by another version of it or with another class path, and starts without.
    # So each combination has a file of its own.
    jars = Path(pyspark.__file__).parent / "jars"
    digest = hashlib.sha256(os.fsencode(java.path) + os.fsencode(jars)).hexdigest()[:12]
    return cache_directory(environ) / f"classes-{java.version}-{pyspark.__version__}-{digest}.jsa"


def _build_in_background(archive: Path) -> None:
    with contextlib.suppress(OSError):
        # Several programs may end at once: the one that creates the lock builds. A lock whose owner died grows stale.
        lock = archive.with_suffix(".lock")
        lock.parent.mkdir(parents=True, exist_ok=True)
        if lock.exists() and time.time() - lock.stat().st_mtime > _STALE_SECONDS:
            lock.unlink()
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
        subprocess.Popen(
            [sys.executable, "-m", "penstock.spark.driver.class_archive", str(archive)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def build(archive: Path) -> None:
    """Run the smallest job of each mode, and let the JVM write the classes it has loaded to `archive`.

    Takes a minute of CPU time; lowers the priority of this process.
    """
    from penstock.common.configuration import Configuration
    from penstock.spark.driver.session import session_for

    os.nice(19)
    temporary = archive.with_suffix(f".{os.getpid()}")
    os.environ[_BUILDING] = str(temporary)
    spark = session_for(2, True, Configuration(), None)
    _run_batch(spark)
    _run_query(spark)
    stop_and_end_jvm(spark)
    # A JVM that starts at this moment sees no archive, or the whole one.
    temporary.replace(archive)


def _run_batch(spark: Any) -> None:
    rows = spark.range(0, 4, 1, 2).selectExpr("cast(id as int) target", "cast('' as binary) buffer")
    rows = rows.mapInArrow(_pass_on, ROW_TYPE)
    rows.repartitionById(2, rows.target).sortWithinPartitions("buffer").mapInArrow(_pass_on, ROW_TYPE).collect()


def _run_query(spark: Any) -> None:
    from penstock.spark.driver.pipelined_query import start_query

    query = start_query(spark, (1, 1), [_one_row, _pass_on])
    time.sleep(_QUERY_SECONDS)
    query.stop()


def _pass_on(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def _one_row(batches: Iterator[Any]) -> Iterator[Any]:
    yield to_batch([(0, b""), (0, b"")])
    yield from batches


if __name__ == "__main__":
    target = Path(sys.argv[1])
    try:
        build(target)
    finally:
        target.with_suffix(".lock").unlink(missing_ok=True)
