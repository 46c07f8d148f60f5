"""Files made of the planner's jars on this machine: our classes, and an archive of all classes for a faster start.

Our classes are compiled from `java/` by the compiler that the planner brings, so no JDK is needed. The archive is the
JVM's own (class data sharing): 80 MB that halve the time to the first plan. Both are in the user's cache, named for
what they depend on, and are made again when they are missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.common.errors import ConfigurationError
from penstock.common.files.cache_directory import cache_directory
from penstock.hosts.spark.driver.class_archive import SWITCH, absolute_python_path, builder_lock
from penstock.hosts.spark.driver.java import JavaHome, find_java
from penstock.table.planner.errors import PlannerError
from penstock.table.planner.jars import class_path, required_jars

_SOURCES = Path(__file__).parent / "java"
_CLASSES = ("AnyConnectorCatalog.java", "Environment.java", "PlannerServer.java", "KeptServer.java")
_MAIN = "penstock.PlannerServer"
# The compiler's last stage and a collector with threads do not pay in a JVM that plans a few statements.
_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Xss8m", "-Dfile.encoding=UTF-8")
# A planner without memory ends, and says so on standard error: standard output is for answers.
_LIMITED = ("-XX:+ExitOnOutOfMemoryError", "-XX:+DisplayVMOutputToStderr")
_QUIET = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")
BUILD_SECONDS = 120
"""How long a JVM may take that compiles, or makes the archive."""
AFTER = "--after"
"""The argument of the process that makes the archive in the background."""
_WAIT_S = 120.0
_LOOK_S = 0.5
_LOWEST_PRIORITY = 19
_ARCHIVES_MAX = 2
_AGAIN_S = 86_400.0
"""After so long what has failed is tried again: the machine may have been busy."""

_TRAINING = (
    "CREATE TABLE a (k STRING, v BIGINT, r ROW<x INT>, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '1' SECOND)"
    " WITH ('connector' = 'x')",
    "CREATE TABLE b (k STRING, n DECIMAL(10, 2), PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'x')",
    "CREATE VIEW c AS SELECT k, v * 2 AS v, r.x, DATE_FORMAT(t, 'HH') AS h, t FROM a WHERE v > 1 AND k IN ('p', 'q')",
    "INSERT INTO b SELECT k, SUM(v) FROM c GROUP BY k",
    "SELECT k, window_start, COUNT(DISTINCT v) FROM TABLE(HOP(TABLE a, DESCRIPTOR(t), INTERVAL '1' SECOND,"
    " INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end",
    "SELECT a.k, b.n FROM a JOIN b ON a.k = b.k",
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM a) WHERE n <= 3",
    "SELECT no_such_column FROM a",
    "SHOW TABLES",
)
"""Statements whose classes go into the archive."""


class Launch(NamedTuple):
    """How the planner's process is started."""

    command: tuple[str, ...]
    archive: Path
    """The class archive, used if it is there."""
    may_use_archive: bool = True

    @property
    def has_archive(self) -> bool:
        """Whether there is an archive that is used."""
        return self.may_use_archive and self.archive.is_file()

    @property
    def full_command(self) -> list[str]:
        """The command with the archive, if there is one."""
        java, *arguments = self.command
        shared = (f"-XX:SharedArchiveFile={self.archive}",) if self.has_archive else ()
        return [java, *shared, *arguments]


def launch(directory: Path, environ: Mapping[str, str]) -> Launch:
    """Return how to start the planner whose jars are in this directory, compiling our classes the first time.

    Raises PlannerError, for example without Java.
    """
    try:
        java = find_java(environ)
    except ConfigurationError as error:
        raise PlannerError(f"SQL is planned by Flink's planner, which needs Java: {error}") from None
    made = cache_directory(environ) / "flink-planner"
    jars = [*map(str, class_path(directory))]
    ours = made / f"penstock-{_digest_of_sources()}.jar"
    if not ours.is_file():
        _compile(java, jars, ours)
    all_jars = os.pathsep.join([*jars, str(ours)])
    key = hashlib.sha256(f"{java.path} {java.version} {all_jars}".encode()).hexdigest()[:12]
    command = (str(java.path / "bin" / "java"), *_JVM, *_LIMITED, *_QUIET, "-cp", all_jars, _MAIN)
    return Launch(command, made / f"classes-{key}.jsa", environ.get(SWITCH) != "off")


def prepare(directory: Path, environ: Mapping[str, str]) -> None:
    """Make what a start needs, the class archive included: five seconds, once. Raises PlannerError."""
    one = launch(directory, environ)
    if one.archive.is_file():
        return
    with tempfile.TemporaryDirectory(dir=one.archive.parent, prefix="archive-") as temporary:
        new = Path(temporary, "classes.jsa")
        java, *arguments = one.command
        _run([java, f"-XX:ArchiveClassesAtExit={new}", *arguments], _training())
        # Without the archive, a start takes longer and works all the same.
        with contextlib.suppress(OSError):
            new.replace(one.archive)
            _prune(one.archive.parent)


def prepare_in_background(one: Launch, directory: Path, environ: Mapping[str, str]) -> None:
    """Have the archive made after this program, if there is none and PENSTOCK_CLASS_ARCHIVE allows it. Raises nothing.

    `directory`: the jars that the program has, which the process must neither look for nor fetch once more.
    Source of the rules: the archive of Spark's classes (`class_archive.py`).
    """
    if one.archive.is_file() or _has_failed(one) or environ.get(SWITCH) in ("off", "use"):
        return
    with contextlib.suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-m", "penstock.table.planner", AFTER, str(os.getpid()), str(directory)],
            cwd=one.archive.parent,
            env={**environ, **absolute_python_path(environ)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def prepare_after(parent: int, directory: Path, environ: Mapping[str, str]) -> None:
    """Make the archive with the lowest priority when the parent process has ended, or in two minutes.

    Only one process of the user does it at a time, and once a day if it fails.
    """
    os.nice(_LOWEST_PRIORITY)
    one = launch(directory, environ)
    with contextlib.suppress(OSError):
        lock = builder_lock(one.archive.parent)
        until_s = time.monotonic() + _WAIT_S
        while os.getppid() == parent and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
        try:
            prepare(directory, environ)
        except PlannerError as error:
            _mark(one).write_text(str(error), encoding="utf-8")
        finally:
            os.close(lock)


def _mark(one: Launch) -> Path:
    """The file that says that making the archive has failed."""
    return one.archive.with_suffix(".refused")


def _has_failed(one: Launch) -> bool:
    """Return whether making the archive has failed lately."""
    with contextlib.suppress(FileNotFoundError):
        return time.time() - _mark(one).stat().st_mtime < _AGAIN_S
    return False


def _prune(directory: Path) -> None:
    """Delete all but the newest archives: those of other versions and other Javas."""
    archives = sorted(directory.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime)
    for path in archives[:-_ARCHIVES_MAX]:
        path.unlink(missing_ok=True)


def _training() -> str:
    requests: list[dict[str, object]] = [{"operation": "open", "options": {}}]
    requests += [{"operation": "execute", "sql": one} for one in _TRAINING]
    return "".join(json.dumps({**request, "environment": "training"}) + "\n" for request in requests)


def _digest_of_sources() -> str:
    texts = b"".join((_SOURCES / name).read_bytes() for name in _CLASSES)
    return hashlib.sha256(texts + repr(required_jars()).encode()).hexdigest()[:12]


def _compile(java: JavaHome, jars: Sequence[str], target: Path) -> None:
    """Compile our classes into a jar: archives of classes do not admit directories on the class path."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="classes-") as temporary:
        classes, jar = Path(temporary, "classes"), Path(temporary, "ours.jar")
        classes.mkdir()
        command = [str(java.path / "bin" / "java"), *_JVM, "-cp", os.pathsep.join(jars)]
        program = ["org.codehaus.janino.SimpleCompiler", str(_SOURCES / "Build.java"), "penstock.Build", str(classes)]
        _run([*command, *program, *(str(_SOURCES / name) for name in _CLASSES)])
        with zipfile.ZipFile(jar, "w") as archive:
            for file in sorted(classes.rglob("*.class")):
                archive.write(file, file.relative_to(classes).as_posix())
        jar.replace(target)


def _run(command: list[str], text: str = "") -> None:
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PlannerError(f"Flink's planner could not be prepared: {error}") from None
    if done.returncode:
        raise PlannerError(f"Flink's planner could not be prepared:\n{(done.stdout + done.stderr).strip()[-1000:]}")
