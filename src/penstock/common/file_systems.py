"""Paths and the file systems behind them: local paths, and URLs of whatever pyarrow (or fsspec, if installed) opens."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow import fs

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:/")


def is_url(path: str) -> bool:
    """True if the path begins with a scheme, as in `s3://` and `file:/`."""
    return _URL.match(path) is not None


def absolute(path: str | os.PathLike[str]) -> str:
    """The path as every process understands it: URLs as they are, local paths absolute, with `~` replaced.

    Raises TypeError for what is no path, ValueError for an empty one.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"a path must be a str or a pathlib.Path, got {path!r}")
    if not text:
        raise ValueError("a path is empty")
    return text if is_url(text) else str(Path(text).expanduser().absolute())


def file_system_of(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URL, and the path inside it.

    Raises ValueError for a scheme that nothing here opens, OSError if the file system can't be reached.
    """
    import pyarrow
    from pyarrow import fs

    if not is_url(path):
        return fs.LocalFileSystem(), path
    scheme, _, rest = path.partition(":")
    if scheme == "file":
        return fs.LocalFileSystem(), "/" + rest.lstrip("/")
    try:
        file_system, inner = fs.FileSystem.from_uri(path)
        return file_system, str(inner)
    except pyarrow.ArrowInvalid as error:
        try:
            fsspec = importlib.import_module("fsspec")
            return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme))), rest.removeprefix("//")
        except (ImportError, ValueError):
            raise ValueError(f"{path}: no file system is installed for {scheme}:// ({error})") from error
