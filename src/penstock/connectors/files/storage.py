"""Resolve paths of connectors to file systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.errors import ProgramError
from penstock.common.files.file_systems import file_system_of, is_url

if TYPE_CHECKING:
    from pyarrow import fs


def resolve(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path and the path inside it. Raise ProgramError for an unsupported scheme."""
    try:
        return file_system_of(path)
    except ValueError as error:
        raise ProgramError(str(error)) from error


def resolve_below(base: str, path: str) -> tuple[fs.FileSystem, str]:
    """Resolve a path that was built by appending names to `base`; the names may contain characters special in URLs."""
    name = path.removeprefix(base.rstrip("/") + "/")
    if name == path:
        # A job with another base path wrote this path.
        return resolve(path)
    file_system, root = resolve(base)
    return file_system, f"{root.rstrip('/')}/{name}"


def rejoin(path: str, root: str, inner: str) -> str:
    """Return the full path of a file found inside a root.

    `path` resolves to `root`, and `inner` was found at or below it.
    """
    if inner == root or not is_url(path):
        return inner if not is_url(path) else path
    return path.rstrip("/") + "/" + inner[len(root.rstrip("/")) :].lstrip("/")
