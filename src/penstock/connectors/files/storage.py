"""Paths of files that are read or written by connectors, and the file systems behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.errors import ProgramError
from penstock.common.file_systems import file_system_of, is_url

if TYPE_CHECKING:
    from pyarrow import fs


def resolve(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path and the path inside it. Raises ProgramError for a scheme that nothing here opens."""
    try:
        return file_system_of(path)
    except ValueError as error:
        raise ProgramError(str(error)) from error


def resolve_below(base: str, path: str) -> tuple[fs.FileSystem, str]:
    """The same for a path that was made by appending names to `base`, which may hold what means something in a URL."""
    name = path.removeprefix(base.rstrip("/") + "/")
    if name == path:
        # Of a job that wrote somewhere else.
        return resolve(path)
    file_system, root = resolve(base)
    return file_system, f"{root.rstrip('/')}/{name}"


def rejoin(path: str, root: str, inner: str) -> str:
    """The full path of something found inside a root.

    `path` resolves to `root`, and `inner` was found at or below it.
    """
    if inner == root or not is_url(path):
        return inner if not is_url(path) else path
    return path.rstrip("/") + "/" + inner[len(root.rstrip("/")) :].lstrip("/")
