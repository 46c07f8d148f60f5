"""A directory that must stay the same one: where it is away, as a share that is not mounted, its files are not gone.

The place where a share was mounted may stay there as an empty directory, and a writer may create what is missing. So a
local directory is known by its device and its number, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.common.files.durable import is_object_store

if TYPE_CHECKING:
    from pyarrow import fs


class KnownDirectory:
    """At a path of a file system. In an object store, which has no directories, it is never away."""

    def __init__(self, system: fs.FileSystem, path: str) -> None:
        self._system = system
        self._path = path
        self.is_noted = False
        self._identity: tuple[int, int] | None = None

    def note(self) -> None:
        """Remember the directory, which is there, as the first call finds it. Raises OSError."""
        if not self.is_noted:
            self.is_noted, self._identity = True, self._found()

    @property
    def is_away(self) -> bool:
        """Whether it is missing, or is another one than was noted. Raises OSError."""
        from pyarrow import fs

        if is_object_store(self._system):
            return False
        if not isinstance(self._system, fs.LocalFileSystem):
            return self._system.get_file_info(self._path).type is fs.FileType.NotFound
        found = self._found()
        return found is None or self._identity not in (None, found)

    def check_not_away(self, name: str) -> None:
        """Raise OSError, which calls it `name`, if it was noted and is away now."""
        if self.is_noted and self.is_away:
            raise store_away(name)

    @property
    def is_covered(self) -> bool:
        """Whether one on another device is in the place of the one that was noted. Raises OSError.

        Not by the device alone: a share that is mounted again may have another one.
        """
        found, noted = self._found(), self._identity
        if found is None or noted is None:
            return False
        return all(now != then for now, then in zip(found, noted, strict=True))

    def _found(self) -> tuple[int, int] | None:
        from pyarrow import fs

        if not isinstance(self._system, fs.LocalFileSystem):
            return None
        try:
            status = Path(self._path or "/").stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_dev, status.st_ino


def store_away(directory: str) -> OSError:
    """The error of a file whose directory is missing with it."""
    return OSError(
        f"its directory {directory} is not there: is its store mounted, and can this machine reach it? What is in it "
        "is not lost when it comes back"
    )
