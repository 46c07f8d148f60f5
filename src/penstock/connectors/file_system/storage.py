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


def rejoin(path: str, root: str, inner: str) -> str:
    """The full path of something found inside a root.

    `path` resolves to `root`, and `inner` was found at or below it.
    """
    if inner == root or not is_url(path):
        return inner if not is_url(path) else path
    return path.rstrip("/") + "/" + inner[len(root.rstrip("/")) :].lstrip("/")
