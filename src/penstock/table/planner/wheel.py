"""The planner in an installed `apache-flink-libraries`, for machines that reach PyPI and no repository of Maven.

That package is Flink's distribution, whose planner is a jar within a jar. It is extracted into the user's cache, next
to links to the others. `wheel_jars.txt` has their names and SHA-256 in the order of the class path.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from penstock.common.files.cache_directory import cache_directory
from penstock.common.files.new_directory import new_directory

PACKAGE = "apache-flink-libraries"
_PLANNER = "flink-table-planner.jar"
_OUTER = "flink-table-planner-loader-{version}.jar"
"""The jar that has the planner's."""


@cache
def wheel_jars() -> Mapping[str, str]:
    """Return the jars that are used, by name, with their SHA-256."""
    lines = (Path(__file__).parent / "wheel_jars.txt").read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in map(str.split, lines)}


def wheel_directory(version: str, environ: Mapping[str, str]) -> Path | None:
    """Return a directory with the jars of the package; None if it is not installed in this version."""
    try:
        found = distribution(PACKAGE)
    except PackageNotFoundError:
        return None
    folder = Path(str(found.locate_file("pyflink/lib")))
    outer = folder / _OUTER.format(version=version)
    others = [folder / name for name in wheel_jars() if name != _PLANNER]
    if found.version != version or not all(file.is_file() for file in (outer, *others)):
        return None
    named = hashlib.sha256(f"{folder} {sorted(wheel_jars().items())}".encode()).hexdigest()[:8]
    directory = cache_directory(environ) / f"flink-planner-{version}-wheel-{named}"
    if not directory.is_dir():
        _link(outer, others, directory)
    return directory


def is_of_wheel(directory: Path) -> bool:
    """Return whether a directory is one that `wheel_directory` returned, or a copy of it."""
    return (directory / _PLANNER).is_file()


def _link(outer: Path, others: list[Path], directory: Path) -> None:
    with new_directory(directory) as new:
        with zipfile.ZipFile(outer) as jar:
            jar.extract(_PLANNER, new)
        for file in others:
            (new / file.name).symlink_to(file)
