"""Directories of a file system for a listing: entries with an identity that is the same through all links."""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Hashable
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow import fs


class Entry(NamedTuple):
    """A file or a directory. `identity` is the same for each path that leads to it."""

    name: str
    path: str
    is_directory: bool
    size: int
    identity: Hashable
    linked_at_ns: int | None = None
    """When the symbolic link to a directory was created, or None for other entries."""


class Tree(ABC):
    """Read directories. Entries that are neither files nor directories, such as sockets, are omitted."""

    @abstractmethod
    def directory(self, path: str) -> Entry:
        """Return the entry of a directory that exists."""

    @abstractmethod
    def children(self, path: str) -> list[Entry]:
        """Return the entries of a directory, or an empty list if it was deleted in the meantime."""


def tree_of(file_system: fs.FileSystem) -> Tree:
    """Return the tree of a file system."""
    return _LocalTree() if file_system.type_name == "local" else _StoreTree(file_system)


class _StoreTree(Tree):
    """Any file system of pyarrow. A directory is identified by its path: object stores have no links."""

    def __init__(self, file_system: fs.FileSystem) -> None:
        self._file_system = file_system

    def directory(self, path: str) -> Entry:
        return Entry(name=path.rpartition("/")[2], path=path, is_directory=True, size=0, identity=path)

    def children(self, path: str) -> list[Entry]:
        infos = self._file_system.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return [
            Entry(
                name=info.base_name,
                path=info.path,
                is_directory=info.type is fs.FileType.Directory,
                size=info.size or 0,
                identity=info.path,
            )
            for info in infos
            if info.type in (fs.FileType.File, fs.FileType.Directory)
        ]


class _LocalTree(Tree):
    """The local file system. pyarrow cannot list it if a name is not UTF-8, and does not report links."""

    def directory(self, path: str) -> Entry:
        return Entry(name=Path(path).name, path=path, is_directory=True, size=0, identity=_identity(Path(path).stat()))

    def children(self, path: str) -> list[Entry]:
        try:
            with os.scandir(path) as entries:
                return [child for child in map(_local, entries) if child is not None]
        except FileNotFoundError:
            return []


def _local(entry: os.DirEntry[str]) -> Entry | None:
    try:
        status = entry.stat()
        is_directory = stat.S_ISDIR(status.st_mode)
        if not is_directory and not stat.S_ISREG(status.st_mode):
            return None
        is_link = is_directory and entry.is_symlink()
        linked_at_ns = entry.stat(follow_symlinks=False).st_mtime_ns if is_link else None
    except OSError:
        # A link that leads nowhere or to itself, or a file that was deleted in the meantime.
        return None
    return Entry(
        name=entry.name,
        path=entry.path,
        is_directory=is_directory,
        size=status.st_size,
        identity=_identity(status),
        linked_at_ns=linked_at_ns,
    )


def _identity(status: Any) -> tuple[int, int]:
    return status.st_dev, status.st_ino
