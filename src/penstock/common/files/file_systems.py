"""Paths and their file systems: local paths, and URLs of any file system of pyarrow (or fsspec, if installed)."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.common.text.secrets import without_secrets

if TYPE_CHECKING:
    from pyarrow import fs

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:/")


def is_url(path: str) -> bool:
    """Return True if the path begins with a scheme, as in `s3://` and `file:/`."""
    return _URL.match(path) is not None


def absolute(path: str | os.PathLike[str]) -> str:
    """Return a path valid in every process: URLs are unchanged, local paths become absolute, `~` is expanded.

    Raises TypeError if it is not a path, ValueError if it is empty.
    """
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise TypeError(f"a path must be a str or a pathlib.Path, got {path!r}")
    if not text:
        raise ValueError("the path is empty")
    return text if is_url(text) else str(Path(text).expanduser().absolute())


def file_system_of(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URL, and the path inside it.

    Raises ValueError for an unsupported scheme, OSError if the file system can't be reached.
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
            file_system, inner = importlib.import_module("fsspec.core").url_to_fs(path)
            return fs.PyFileSystem(fs.FSSpecHandler(file_system)), str(inner)
        except (ImportError, ValueError) as reason:
            # `from None`, because the other errors show the URL with its password.
            text = f"{path}: no file system is installed for {scheme}://. pyarrow: {error}. fsspec: {reason}"
            raise ValueError(without_secrets(text)) from None
