"""A class-data-sharing archive of Spark's classes, with which the first record of a job takes two thirds of the time.

Most of a start is loading and verifying ten thousand classes of Spark. The JVM can write them to a file once, and map
that file later. The first program without an archive starts a process that creates it in the background, with the
lowest priority: after the end of the program, or after two minutes (`class_archive_builder.py`). `penstock prepare`
creates it immediately, for an image or a CI.

The file has about 170 MB and is in the user's cache. It fits the Spark and the Java of one environment only, and the
cache has one file for each version of both. Another environment with these versions starts without the archive, and
replaces it if the environment that has created it no longer exists, or has not used it for a week.
PENSTOCK_CLASS_ARCHIVE=off in the environment prevents creation and use; =use prevents only creation; =on lets the JVM
of this program create it when it ends, which takes ten seconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.common.files.cache_directory import cache_directory
from penstock.hosts.spark.driver.java import JavaHome

_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
SWITCH = "PENSTOCK_CLASS_ARCHIVE"
BUILDER = "penstock.hosts.spark.driver.class_archive_builder"
ARCHIVES_MAX = 2
"""The maximum number of archives: those of the versions used last, about 340 MB."""
_UNUSED_S = 7 * 24 * 3600.0
"""An archive that was not used for this long may be replaced by another environment (seconds)."""
_LEFTOVER_S = 3600.0
"""A temporary file of this age belongs to a process that was killed (seconds)."""
_log = logging.getLogger(__name__)


class ClassArchive:
    """Use or create the archive for a Java and this process's PySpark. `options`: Java options for the next JVM."""

    def __init__(self, java: JavaHome, environ: Mapping[str, str], may_create: bool = True) -> None:
        import pyspark

        jars = Path(pyspark.__file__).parent / "jars"
        self.path = cache_directory(environ) / f"classes-{java.version}-{pyspark.__version__}.jsa"
        self.options = ""
        self.is_missing = False
        """Whether a process in the background should create it."""
        self._new: Path | None = None
        self._owner = f"{java.path}\n{jars}"
        switch = environ.get(SWITCH, "")
        self._remove_leftovers()
        if switch == "off":
            return
        if self._fits():
            # The time of the file is the time of its last use.
            with contextlib.suppress(OSError):
                os.utime(self.path)
            self.options = f"-XX:SharedArchiveFile={self.path} {_QUIET}"
        elif may_create and switch != "use" and self._may_be_replaced():
            if switch == "on":
                self._new = self.path.with_suffix(f".{os.getpid()}")
                self.options = f"-XX:ArchiveClassesAtExit={self._new} {_QUIET}"
            else:
                self.is_missing = True

    @property
    def is_being_created(self) -> bool:
        """Return whether the JVM will write the archive when it ends: call `finish` or `abandon` then."""
        return self._new is not None

    @property
    def is_used(self) -> bool:
        """Return whether an archive exists that fits."""
        return "SharedArchiveFile" in self.options

    def create_in_background(self) -> None:
        """Start the process that creates the archive after this one, unless one runs. Raises nothing."""
        self.is_missing = False
        with contextlib.suppress(OSError):
            os.close(builder_lock(self.path.parent))
            subprocess.Popen(
                [sys.executable, "-m", BUILDER, str(os.getpid())],
                cwd=self.path.parent,
                # Its working directory is another one, so relative paths to packages must be absolute.
                env={**os.environ, **absolute_python_path(os.environ)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._report(
                f"Spark's classes are archived in the background, once, so that Spark starts faster from now on: "
                f"{self.path} (170 MB). {SWITCH}=off prevents it"
            )

    def remove(self) -> None:
        """Remove the archive, and the mark of a failed creation, so that the next program creates an archive."""
        for path in (self.path, self._failure_mark):
            path.unlink(missing_ok=True)

    def give_up(self) -> None:
        """Leave a mark, so that not each further program of this environment tries to create the archive."""
        self._failure_mark.write_text(self._owner)

    def finish(self, end_jvm: Callable[[], None]) -> None:
        """End the JVM, which writes the archive. Raises nothing.

        `end_jvm` ends the JVM and waits for it; it raises KeyboardInterrupt if the user interrupts it.
        """
        new = self._new
        if new is None:
            return
        self._new = None
        self._report(
            f"archiving Spark's classes, so that Spark starts faster from now on: {self.path} (170 MB). "
            f"Ctrl-C skips this, {SWITCH}=off always"
        )
        try:
            end_jvm()
            if new.exists():
                self._owner_file.write_text(self._owner)
                # A JVM that starts now sees either the old archive or the complete new one.
                new.replace(self.path)
                prune(self.path.parent)
            elif not self._fits():
                # The JVM has failed to write it.
                self.give_up()
        except KeyboardInterrupt:
            self._report("the archive was not created")
        except Exception as error:
            _log.debug("the class archive was not created: %s", error)
        finally:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)

    def abandon(self, kill_jvm: Callable[[], None]) -> None:
        """Do not create the archive, and do not wait. `kill_jvm` ends the JVM before it can write the archive."""
        new, self._new = self._new, None
        if new is not None:
            kill_jvm()
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)

    @property
    def _owner_file(self) -> Path:
        return self.path.with_suffix(".owner")

    @property
    def _failure_mark(self) -> Path:
        return self.path.with_suffix(".refused")

    def _fits(self) -> bool:
        return self.path.exists() and _text_of(self._owner_file) == self._owner

    def _may_be_replaced(self) -> bool:
        if _text_of(self._failure_mark) == self._owner:
            return False
        with contextlib.suppress(OSError):
            unused_s = time.time() - self.path.stat().st_mtime
            owner = _text_of(self._owner_file).splitlines()
            return unused_s > _UNUSED_S or not owner or not all(Path(path).exists() for path in owner)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            return False
        return os.access(self.path.parent, os.W_OK)

    def _remove_leftovers(self) -> None:
        """Remove temporary files of processes that were killed while their JVM wrote. Raises nothing."""
        for file in self.path.parent.glob(f"{self.path.stem}.*"):
            with contextlib.suppress(OSError):
                if file.suffix[1:].isdigit() and time.time() - file.stat().st_mtime > _LEFTOVER_S:
                    file.unlink()
                    _log.debug("removed %s, which a process has left that was killed", file)

    def _report(self, text: str) -> None:
        if _is_terminal():
            print(f"penstock: {text}", file=sys.stderr)
        else:
            _log.debug(text)


def builder_lock(directory: Path) -> int:
    """Return the locked descriptor of the process that builds. Raises OSError if another process builds."""
    lock = os.open(directory / "class-archive.lock", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def absolute_python_path(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variable for a process with another working directory; nothing if it is not set."""
    paths = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, paths))} if paths else {}


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def prune(directory: Path, keep: int = ARCHIVES_MAX) -> None:
    """Delete archives, and their owner files, except for the `keep` archives used last."""
    with contextlib.suppress(OSError):
        archives = sorted(directory.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in archives[keep:]:
            path.unlink(missing_ok=True)
            path.with_suffix(".owner").unlink(missing_ok=True)


def _text_of(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""
