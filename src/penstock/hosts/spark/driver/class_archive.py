"""A class-data-sharing archive of Spark's classes: with it the first record of a job takes two thirds of the time.

Most of a start goes into loading and verifying ten thousand classes of Spark. The JVM can write them to a file once,
and map that file from then on. It does so when the first program on a terminal ends, in some ten seconds: the program
says so and waits, so that no process outlives it. Ctrl-C there goes without, and so does a program that Ctrl-C has
ended. Programs without a terminal don't: in a new container each time, it would never pay.

The file has some 170 MB and is kept in the user's cache. It fits the Spark and the Java of one environment only, and
there is one for each version of both, whatever number of environments there is: another environment makes it again if
the one that has it is gone, or has not used it for a week, and starts without it till then.
PENSTOCK_CLASS_ARCHIVE=off in the environment prevents both making and using it; =use prevents making only; =on makes it
without a terminal, too. `python -m penstock.hosts.spark.driver.class_archive_builder` makes it at once, for an image
for example.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.common.files.cache_directory import cache_directory
from penstock.hosts.spark.driver.java import JavaHome

_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
SWITCH = "PENSTOCK_CLASS_ARCHIVE"
KEPT = 2
"""So many archives stay, those of the versions used last: some 340 MB."""
_UNUSED_S = 7 * 24 * 3600.0
_LEFT_S = 3600.0
_log = logging.getLogger(__name__)


class ClassArchive:
    """The archive for a Java and the PySpark of this process. `options`: for the JVM that is about to start."""

    def __init__(self, java: JavaHome, environ: Mapping[str, str], may_make: bool = True) -> None:
        import pyspark

        jars = Path(pyspark.__file__).parent / "jars"
        self.path = cache_directory(environ) / f"classes-{java.version}-{pyspark.__version__}.jsa"
        self.options = ""
        self._new: Path | None = None
        self._owner = f"{java.path}\n{jars}"
        switch = environ.get(SWITCH, "")
        self._remove_left()
        if switch == "off":
            return
        may_make = may_make and switch != "use" and (switch == "on" or _is_terminal())
        if self._is_ours():
            # The time of its last use.
            with contextlib.suppress(OSError):
                os.utime(self.path)
            self.options = f"-XX:SharedArchiveFile={self.path} {_QUIET}"
        elif may_make and self._may_be_replaced():
            self._new = self.path.with_suffix(f".{os.getpid()}")
            self.options = f"-XX:ArchiveClassesAtExit={self._new} {_QUIET}"

    @property
    def is_made(self) -> bool:
        """Whether the JVM writes it when it ends: `finish` is to be called then."""
        return self._new is not None

    @property
    def is_used(self) -> bool:
        """Whether there is one, and it fits."""
        return "SharedArchiveFile" in self.options

    def forget(self) -> None:
        """Remove it, and the note that none can be made, so that the next program makes one."""
        for path in (self.path, self._refusal):
            path.unlink(missing_ok=True)

    def finish(self, end_jvm: Callable[[], None]) -> None:
        """Let the JVM end and write the archive. Raises nothing: without it all is as before.

        `end_jvm` ends it and waits for it; interrupted, it raises KeyboardInterrupt.
        """
        new = self._new
        if new is None:
            return
        self._new = None
        self._say(
            f"Spark's classes are archived, once, so that it starts faster from now on: {self.path} (170 MB). "
            f"Ctrl-C goes without, {SWITCH}=off always"
        )
        try:
            end_jvm()
            if new.exists():
                self._owner_file.write_text(self._owner)
                # A JVM that starts at this moment sees the old archive, or the whole new one.
                new.replace(self.path)
                prune(self.path.parent)
            elif not self._is_ours():
                # The JVM could not. It is not asked again at the end of each program.
                self._refusal.write_text(self._owner)
        except KeyboardInterrupt:
            self._say("it is left out this time")
        except Exception as error:
            _log.debug("no class archive was made: %s", error)
        finally:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)

    def abandon(self, kill_jvm: Callable[[], None]) -> None:
        """Go without it: nobody waits for the end of the JVM. `kill_jvm` lets it not come to write the archive."""
        new, self._new = self._new, None
        if new is not None:
            kill_jvm()
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)

    @property
    def _owner_file(self) -> Path:
        return self.path.with_suffix(".owner")

    @property
    def _refusal(self) -> Path:
        return self.path.with_suffix(".refused")

    def _is_ours(self) -> bool:
        return self.path.exists() and _text_of(self._owner_file) == self._owner

    def _may_be_replaced(self) -> bool:
        if _text_of(self._refusal) == self._owner:
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

    def _remove_left(self) -> None:
        """Remove what processes have left that were killed while the JVM wrote. Raises nothing: it may stay."""
        for left in self.path.parent.glob(f"{self.path.stem}.*"):
            with contextlib.suppress(OSError):
                if left.suffix[1:].isdigit() and time.time() - left.stat().st_mtime > _LEFT_S:
                    left.unlink()
                    _log.debug("removed %s, which was left by a process that has ended", left)

    def _say(self, text: str) -> None:
        if _is_terminal():
            print(f"penstock: {text}", file=sys.stderr)
        else:
            _log.debug(text)


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def prune(directory: Path, keep: int = KEPT) -> None:
    """Delete archives other than those used last, and what belongs to them."""
    with contextlib.suppress(OSError):
        archives = sorted(directory.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in archives[keep:]:
            path.unlink(missing_ok=True)
            path.with_suffix(".owner").unlink(missing_ok=True)


def _text_of(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""
