"""Fetches jars by their Maven coordinates: with `mvn` if there is one, otherwise with the resolver that Spark brings.

The repository is the one that these are configured for.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import NamedTuple

from penstock.common.errors import ConfigurationError
from penstock.hosts.spark.driver.java import find_java
from penstock.table.planner.errors import PlannerError

_SECONDS = 240
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


def fetch_jars(jars: Sequence[Jar], directory: Path, environ: Mapping[str, str], *, advice: str) -> None:
    """Fetch jars into an empty directory, and nothing else. Their checksums are not looked at.

    `advice`: for errors: what to do on a machine without network. Raises PlannerError.
    """
    with tempfile.TemporaryDirectory(dir=directory.parent) as temporary:
        if maven := shutil.which("mvn", path=environ.get("PATH")):
            _run([maven, *_maven_arguments(jars, Path(temporary), directory)], "Maven", advice)
        else:
            resolver = _ivy(environ, advice)
            _run([*resolver, *_ivy_arguments(jars, Path(temporary), directory)], "Spark's resolver", advice)
    names = {jar.name for jar in jars}
    for file in directory.iterdir():
        if file.name not in names:
            file.unlink()


def _maven_arguments(jars: Sequence[Jar], temporary: Path, directory: Path) -> list[str]:
    dependencies = [
        f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
        f"<version>{jar.version}</version><exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId>"
        "</exclusion></exclusions></dependency>"
        for jar in jars
    ]
    project = _written(temporary, "pom.xml", dependencies)
    return ["-q", "-B", "-f", str(project), "dependency:copy-dependencies", f"-DoutputDirectory={directory}"]


def _ivy(environ: Mapping[str, str], advice: str) -> list[str]:
    import pyspark

    try:
        java = find_java(environ).path / "bin" / "java"
    except ConfigurationError as error:
        raise PlannerError(f"SQL is planned by Flink's planner, which needs Java: {error}") from None
    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    if not jars:
        raise PlannerError(f"neither Maven nor Spark's resolver was found. {advice}")
    return [str(java), "-cp", str(jars[0]), "org.apache.ivy.Main"]


def _ivy_arguments(jars: Sequence[Jar], temporary: Path, directory: Path) -> list[str]:
    dependencies = [
        f'<dependency org="{jar.group}" name="{jar.artifact}" rev="{jar.version}" transitive="false"/>' for jar in jars
    ]
    module = _written(temporary, "ivy.xml", dependencies)
    cached = temporary / "cache"
    pattern = f"{directory}/[artifact]-[revision].[ext]"
    return ["-warn", "-ivy", str(module), "-cache", str(cached), "-types", "jar", "bundle", "-retrieve", pattern]


def _written(directory: Path, name: str, dependencies: Sequence[str]) -> Path:
    """Write a file of the resolver's, from the one of this name here."""
    template = Template((Path(__file__).parent / name).read_text(encoding="utf-8"))
    file = directory / name
    file.write_text(template.substitute(dependencies="\n".join(dependencies)), encoding="utf-8")
    return file


def _run(command: list[str], fetcher: str, advice: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise PlannerError(f"{fetcher} did not fetch Flink's planner within {_SECONDS} s. {advice}") from None
    if done.returncode:
        raise PlannerError(
            f"{fetcher} did not fetch Flink's planner, which SQL needs. {advice} It said:\n"
            f"{(done.stdout + done.stderr).strip()[-600:]}"
        )
