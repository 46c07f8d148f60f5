"""The jars of Flink's planner: fetched once into the user's cache, or found in a folder that a setting names.

Where `apache-flink-libraries` is installed nothing is fetched: see `wheel.py`.

`python -m penstock.table.planner FOLDER` fills such a folder. The jars are fetched by their Maven coordinates, with
`mvn` if there is one, otherwise with the resolver that Spark brings, from the repository that these are configured for.
Their names, versions and SHA-256 are in `jars.txt`; a file with another sum is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Template
from typing import NamedTuple

from penstock.common.files.cache_directory import cache_directory
from penstock.hosts.spark.driver.java import find_java
from penstock.table.planner.errors import PlannerError
from penstock.table.planner.wheel import PACKAGE, is_of_wheel, wheel_directory, wheel_jars

FLINK = "2.3.0"
SETTING = "PENSTOCK_FLINK_PLANNER"
COMMAND = "python -m penstock.table.planner"
_FETCH_SECONDS = 240
"""Without a network, Maven would retry for minutes."""


class Jar(NamedTuple):
    """A file of Maven's repository."""

    sha256: str
    group: str
    artifact: str
    version: str

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.artifact}-{self.version}.jar"


@cache
def required_jars() -> tuple[Jar, ...]:
    """Return the jars that the planner consists of, in the order of its class path."""
    lines = (Path(__file__).parent / "jars.txt").read_text(encoding="utf-8").splitlines()
    return tuple(Jar(digest, *coordinates.split(":")) for digest, coordinates in map(str.split, lines))


def planner_directory(environ: Mapping[str, str]) -> Path:
    """Return the directory with the planner's jars, fetching them the first time: 65 MB.

    Raises PlannerError if they are unavailable or not those that are expected.
    """
    if named := environ.get(SETTING):
        # Processes that need it have other working directories.
        directory = Path(named).absolute()
        check(directory)
        return directory
    directory = cache_directory(environ) / f"flink-planner-{FLINK}-{_digest()}"
    if directory.is_dir():
        return directory
    installed = wheel_directory(FLINK, environ)
    if installed is None:
        fetch(directory, environ)
        return directory
    check(installed)
    return installed


def class_path(directory: Path) -> list[Path]:
    """Return the jars in a directory that `planner_directory` returned."""
    return [directory / name for name in _expected(directory)]


def check(directory: Path) -> None:
    """Raise PlannerError unless the directory has all jars with their checksums."""
    expected = _expected(directory)
    missing = [name for name in expected if not (directory / name).is_file()]
    if missing:
        raise PlannerError(
            f"{directory} lacks {len(missing)} of the {len(expected)} jars of Flink's planner, such as {missing[0]}. "
            f"Fill it on a machine with network: {COMMAND} FOLDER"
        )
    for name, digest in expected.items():
        with (directory / name).open("rb") as opened:
            found = hashlib.file_digest(opened, "sha256").hexdigest()
        if found != digest:
            raise PlannerError(
                f"{(directory / name).resolve()} is not the file that penstock expects (SHA-256 {found[:12]}…, "
                f"expected {digest[:12]}…): it is not used. {_advice(directory)}"
            )


def fill(directory: Path, environ: Mapping[str, str]) -> None:
    """Fill a folder for machines without network: from an installed package, or as `fetch`. Raises PlannerError."""
    installed = wheel_directory(FLINK, environ)
    if installed is None:
        fetch(directory, environ)
        return
    check(installed)
    shutil.copytree(installed, directory, dirs_exist_ok=True)


def fetch(directory: Path, environ: Mapping[str, str]) -> None:
    """Fetch the jars into a directory, which appears when it is complete. Raises PlannerError."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f"{directory.name}-") as temporary:
        new = Path(temporary, "jars")
        new.mkdir()
        if maven := shutil.which("mvn", path=environ.get("PATH")):
            _run([maven, *_maven_arguments(Path(temporary), new)], "Maven")
        else:
            _run([*_ivy(environ), *_ivy_arguments(Path(temporary), new)], "Spark's resolver")
        for file in new.iterdir():
            if file.name not in {jar.name for jar in required_jars()}:
                file.unlink()
        check(new)
        if directory.is_dir():
            for file in new.iterdir():
                file.replace(directory / file.name)
            return
        # Another process may have been faster.
        with contextlib.suppress(OSError):
            new.rename(directory)


def _maven_arguments(temporary: Path, new: Path) -> list[str]:
    dependencies = [
        f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
        f"<version>{jar.version}</version><exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId>"
        "</exclusion></exclusions></dependency>"
        for jar in required_jars()
    ]
    project = _written(temporary, "pom.xml", dependencies)
    return ["-q", "-B", "-f", str(project), "dependency:copy-dependencies", f"-DoutputDirectory={new}"]


def _ivy(environ: Mapping[str, str]) -> list[str]:
    import pyspark

    java = find_java(environ).path / "bin" / "java"
    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    if not jars:
        raise PlannerError(f"neither Maven nor Spark's resolver was found. {_WITHOUT_NETWORK}")
    return [str(java), "-cp", str(jars[0]), "org.apache.ivy.Main"]


def _ivy_arguments(temporary: Path, new: Path) -> list[str]:
    dependencies = [
        f'<dependency org="{jar.group}" name="{jar.artifact}" rev="{jar.version}" transitive="false"/>'
        for jar in required_jars()
    ]
    module = _written(temporary, "ivy.xml", dependencies)
    cached = temporary / "cache"
    pattern = f"{new}/[artifact]-[revision].[ext]"
    return ["-warn", "-ivy", str(module), "-cache", str(cached), "-types", "jar", "bundle", "-retrieve", pattern]


def _written(directory: Path, name: str, dependencies: Sequence[str]) -> Path:
    """Write a file of the resolver's, from the one of this name here."""
    template = Template((Path(__file__).parent / name).read_text(encoding="utf-8"))
    file = directory / name
    file.write_text(template.substitute(dependencies="\n".join(dependencies)), encoding="utf-8")
    return file


def _run(command: list[str], fetcher: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        raise PlannerError(
            f"{fetcher} did not fetch Flink's planner within {_FETCH_SECONDS} s. {_WITHOUT_NETWORK}"
        ) from None
    if done.returncode:
        raise PlannerError(
            f"{fetcher} did not fetch Flink's planner, which SQL needs. {_WITHOUT_NETWORK} It said:\n"
            f"{(done.stdout + done.stderr).strip()[-600:]}"
        )


_WITHOUT_NETWORK = (
    f"On a machine without network, copy the folder that `{COMMAND} FOLDER` fills elsewhere, and let {SETTING} name "
    f"it. Where PyPI can be reached, `pip install {PACKAGE}=={FLINK}` also brings the planner."
)


def _expected(directory: Path) -> Mapping[str, str]:
    """Return the SHA-256 of the jars in a directory by name, in the order of the class path."""
    if is_of_wheel(directory):
        return wheel_jars()
    return {jar.name: jar.sha256 for jar in required_jars()}


def _advice(directory: Path) -> str:
    if is_of_wheel(directory):
        return f"Delete {directory}, and install {PACKAGE}=={FLINK} again."
    return f"Delete it, and fetch it again: {COMMAND} FOLDER"


def _digest() -> str:
    return hashlib.sha256(repr(required_jars()).encode()).hexdigest()[:8]
