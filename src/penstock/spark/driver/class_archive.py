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
from collections.abc import Mapping
from pathlib import Path

from penstock.spark.driver.java import JavaHome, cache_directory

_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
_STALE_SECONDS = 600
KEPT = 2
"""So many archives stay, whatever number of environments there is: some 340 MB."""
BUILDING = "PENSTOCK_CLASS_ARCHIVE"


def java_options(java: JavaHome, environ: Mapping[str, str]) -> str:
    """Options for the driver's JVM: use the archive, or write one when the JVM exits (only in the building process).

    If there is no archive yet, one will be built after this program.
    """
    setting = environ.get(BUILDING, "")
    if setting == "off":
        return ""
    if setting:
        return f"-XX:ArchiveClassesAtExit={setting} {_QUIET}"
    archive = _path(java, environ)
    if archive.exists():
        # The time of its last use: see `prune`.
        with contextlib.suppress(OSError):
            os.utime(archive)
        return f"-XX:SharedArchiveFile={archive} {_QUIET}"
    atexit.register(_build_in_background, archive)
    return ""


def prune(directory: Path, keep: int = KEPT) -> None:
    """Delete archives other than those used last, and what builders that were killed have left behind."""
    with contextlib.suppress(OSError):
        archives = sorted(directory.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
        partial = (path for path in directory.glob("classes-*") if path.suffix not in (".jsa", ".lock"))
        stale = [path for path in partial if time.time() - path.stat().st_mtime > _STALE_SECONDS]
        for path in (*archives[keep:], *stale):
            path.unlink(missing_ok=True)


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
            [sys.executable, "-m", "penstock.spark.driver.class_archive_builder", str(archive)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
