"""A class-data-sharing archive of Spark's classes: with it the first record of a job takes two thirds of the time.

Most of a start goes into loading and verifying ten thousand classes of Spark. The JVM can write them to a file once and
map that file from then on. The file fits one Java and one PySpark, has some 170 MB and is kept in the user's cache. It
is built in the background, at low priority, after the first program that has started a session has ended. One process
builds it at a time: it holds a lock on a file beside the archive, which is free again however that process ends.

PENSTOCK_CLASS_ARCHIVE=off in the environment prevents both building and using it; PENSTOCK_CLASS_ARCHIVE=use prevents
building only. `python -m penstock.spark.driver.class_archive_builder` builds it at once, for an image for example.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.spark.driver.java import JavaHome, cache_directory

_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
KEPT = 2
"""So many archives stay, whatever number of environments there is: some 340 MB."""
BUILDING = "PENSTOCK_CLASS_ARCHIVE"

_log = logging.getLogger(__name__)


def java_options(java: JavaHome, environ: Mapping[str, str]) -> str:
    """Options for the driver's JVM: use the archive, or write one when the JVM exits (only in the building process).

    If there is no archive yet, one will be built after this program.
    """
    setting = environ.get(BUILDING, "")
    if setting == "off":
        return ""
    if setting not in ("", "use"):
        return f"-XX:ArchiveClassesAtExit={setting} {_QUIET}"
    archive = archive_of(java, environ)
    if archive.exists():
        # The time of its last use: see `prune`.
        with contextlib.suppress(OSError):
            os.utime(archive)
        return f"-XX:SharedArchiveFile={archive} {_QUIET}"
    if setting != "use":
        remove_half_made(archive)
        atexit.register(_build_in_background, archive)
    return ""


def prune(directory: Path, keep: int = KEPT) -> None:
    """Delete archives other than those used last."""
    with contextlib.suppress(OSError):
        archives = sorted(directory.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in archives[keep:]:
            path.unlink(missing_ok=True)


def archive_of(java: JavaHome, environ: Mapping[str, str]) -> Path:
    """Where the archive for this Java and the installed PySpark is, or is to be."""
    import pyspark

    # The JVM refuses an archive that was made by another version of it or with another class path, and starts without.
    # So each combination has a file of its own.
    jars = Path(pyspark.__file__).parent / "jars"
    digest = hashlib.sha256(os.fsencode(java.path) + os.fsencode(jars)).hexdigest()[:12]
    return cache_directory(environ) / f"classes-{java.version}-{pyspark.__version__}-{digest}.jsa"


@contextlib.contextmanager
def locked(archive: Path) -> Iterator[None]:
    """The one process that may write files of this archive. Raises BlockingIOError if there is one, or OSError."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    # The lock's file stays: another process might lock a file of that name that has just been deleted.
    descriptor = os.open(archive.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def half_made(archive: Path) -> Path:
    """The file in which this process builds the archive."""
    return archive.with_suffix(f".{os.getpid()}")


def remove_half_made(archive: Path) -> None:
    """Remove what builders have left that were killed, unless one builds now. Raises nothing: it may stay."""
    left = [path for path in archive.parent.glob(f"{archive.stem}.*") if path.suffix[1:].isdigit()]
    if left:
        with contextlib.suppress(OSError), locked(archive):
            for path in left:
                path.unlink(missing_ok=True)
                _log.debug("removed %s, which was left by a process that has ended", path)


def _build_in_background(archive: Path) -> None:
    # Several programs may end at once. The builder that gets the lock first builds, the others end at once.
    with contextlib.suppress(OSError):
        with locked(archive):
            if archive.exists():
                return
        subprocess.Popen(
            [sys.executable, "-m", "penstock.spark.driver.class_archive_builder", str(archive)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
