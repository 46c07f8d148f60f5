"""Files and directories that survive a power failure.

Until a file and its directory are synced, a closed file may lose its content, and a renamed file its name. Files that
a manifest lists or a commit publishes must be on disk before. Only local file systems need this: others store a file
when it is closed.

In an object store an object appears, complete, when its stream is closed. There a file is written under its final
name: a rename would copy and delete it, and S3 copies at most 5 GB in one request.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow import fs


_OBJECT_STORES = frozenset({"s3", "s3a", "gcs", "gs", "abfs", "abfss", "az"})


def is_object_store(system: fs.FileSystem) -> bool:
    """Return whether a file appears under its name only when it is closed, and a rename is a copy."""
    # The type of fsspec's file systems is "py::fsspec+('s3', 's3a')".
    return not _OBJECT_STORES.isdisjoint(re.findall(r"\w+", system.type_name))


def sync(system: fs.FileSystem, path: str) -> None:
    """Wait until the content of a file, or the names in a directory, are on disk."""
    from pyarrow import fs

    if isinstance(system, fs.LocalFileSystem):
        sync_local(path)


def sync_parent(system: fs.FileSystem, path: str) -> None:
    """Wait until the names in the directory of `path` are on disk."""
    sync(system, path.rpartition("/")[0] or "/" * path.startswith("/") or ".")


def sync_local(path: str | Path) -> None:
    """Wait until the content of a local file, or the names in a local directory, are on disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_written(file: IO[bytes]) -> None:
    """Wait until the content of an open local file is on disk. Raises OSError."""
    file.flush()
    os.fsync(file.fileno())


def publish(system: fs.FileSystem, unfinished: str, path: str) -> None:
    """Rename a closed file. After a power failure, either all of it has the name or nothing."""
    sync(system, unfinished)
    system.move(unfinished, path)
    sync_parent(system, path)


def make_directory(system: fs.FileSystem, path: str) -> None:
    """Create a directory and its missing parents."""
    from pyarrow import fs

    new: list[str] = []
    if isinstance(system, fs.LocalFileSystem):
        new = [str(part) for part in (Path(path), *Path(path).parents) if not part.exists()]
    system.create_dir(path, recursive=True)
    for directory in reversed(new):
        sync_parent(system, directory)
