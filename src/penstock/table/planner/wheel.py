"""The planner in an installed `apache-flink-libraries`, for machines that reach PyPI and no repository of Maven.

That package is Flink's distribution, whose planner is a jar within a jar. It is extracted into the user's cache, next
to links to the others. Their names and SHA-256 are in `wheel_jars.txt`.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from penstock.common.files.cache_directory import cache_directory
from penstock.table.planner.errors import PlannerError

PACKAGE = "apache-flink-libraries"
PLANNER = "flink-table-planner.jar"
_LOADER = "flink-table-planner-loader"


@cache
def wheel_jars() -> Mapping[str, str]:
    """Return the jars that are used, by name, with their SHA-256."""
    lines = (Path(__file__).parent / "wheel_jars.txt").read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in map(str.split, lines)}


def wheel_directory(version: str, environ: Mapping[str, str]) -> Path | None:
    """Return a directory with the jars of the package; None if it is not installed in this version.

    Raises PlannerError for a jar that is another one.
    """
    try:
        found = distribution(PACKAGE)
    except PackageNotFoundError:
        return None
    folder = Path(str(found.locate_file("pyflink/lib")))
    if found.version != version or not all((folder / name).is_file() for name in wheel_jars()):
        return None
    for name, digest in wheel_jars().items():
        check_file(folder / name, digest, f"Install {PACKAGE}=={version} again.")
    named = hashlib.sha256(f"{folder} {sorted(wheel_jars().items())}".encode()).hexdigest()[:8]
    directory = cache_directory(environ) / f"flink-planner-{version}-wheel-{named}"
    if not directory.is_dir():
        _link(folder, directory)
    return directory


def wheel_class_path(directory: Path) -> list[Path]:
    """Return the jars in a directory that `wheel_directory` made; none if it is another one."""
    if not (directory / PLANNER).is_file():
        return []
    return [directory / PLANNER, *(directory / name for name in wheel_jars() if not name.startswith(_LOADER))]


def check_file(file: Path, expected: str, advice: str) -> None:
    """Raise PlannerError, with advice, unless a file has this SHA-256."""
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != expected:
        raise PlannerError(
            f"{file} is not the file that penstock expects (SHA-256 {found[:12]}…, expected {expected[:12]}…): it is "
            f"not used. {advice}"
        )


def _link(folder: Path, directory: Path) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f"{directory.name}-") as temporary:
        new = Path(temporary, "jars")
        new.mkdir()
        for name in wheel_jars():
            if name.startswith(_LOADER):
                with zipfile.ZipFile(folder / name) as loader:
                    loader.extract(PLANNER, new)
            else:
                (new / name).symlink_to(folder / name)
        # Another process may have been faster.
        with contextlib.suppress(OSError):
            new.rename(directory)
