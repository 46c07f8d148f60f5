"""The jars of Flink's planner: fetched once into the user's cache, or found in a folder that a setting names.

Where `apache-flink-libraries` is installed nothing is fetched: see `wheel.py`.

`python -m penstock.table.planner FOLDER` fills such a folder. `jars.txt` has the coordinates of the jars in Maven's
repository and their SHA-256: a file with another sum is not used.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from penstock.common.files.cache_directory import cache_directory
from penstock.common.files.new_directory import new_directory
from penstock.table.planner.errors import PlannerError
from penstock.table.planner.fetching import Jar, fetch_jars
from penstock.table.planner.wheel import PACKAGE, is_of_wheel, wheel_directory, wheel_jars

FLINK = "2.3.0"
SETTING = "PENSTOCK_FLINK_PLANNER"
COMMAND = "python -m penstock.table.planner"
_WITHOUT_NETWORK = (
    f"On a machine without network, copy the folder that `{COMMAND} FOLDER` fills elsewhere, and let {SETTING} name "
    f"it. Where PyPI can be reached, `pip install {PACKAGE}=={FLINK}` also brings the planner."
)


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
    with new_directory(directory) as new:
        fetch_jars(required_jars(), new, environ, advice=_WITHOUT_NETWORK)
        check(new)
        if directory.is_dir():
            for file in new.iterdir():
                file.replace(directory / file.name)


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
