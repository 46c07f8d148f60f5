"""A directory that may be unavailable, such as on a share that is not mounted: then its files are not lost.

The mount point of a share may stay as an empty directory, and a writer may create missing directories in it. Local
directories are therefore identified by device and inode.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.common.files.durable import is_object_store

if TYPE_CHECKING:
    from pyarrow import fs


class KnownDirectory:
    """A directory of a file system. An object store has no directories: there it is never unavailable."""

    def __init__(self, system: fs.FileSystem, path: str) -> None:
        self._system = system
        self._path = path
        self.is_identified = False
        self._identity: tuple[int, int] | None = None

    def identify(self) -> None:
        """Remember the identity of the directory, which must exist, at the first call. Raises OSError."""
        if not self.is_identified:
            self.is_identified, self._identity = True, self._found()

    @property
    def is_unavailable(self) -> bool:
        """Whether the directory is missing or is not the identified one. Raises OSError."""
        from pyarrow import fs

        if is_object_store(self._system):
            return False
        if not isinstance(self._system, fs.LocalFileSystem):
            return self._system.get_file_info(self._path).type is fs.FileType.NotFound
        found = self._found()
        return found is None or self._identity not in (None, found)

    def check_available(self, name: str) -> None:
        """Raise OSError if the directory was identified and is unavailable now. Its message contains `name`."""
        if self.is_identified and self.is_unavailable:
            raise store_unavailable(name)

    @property
    def is_covered(self) -> bool:
        """Whether a directory on another device is in the place of the identified one. Raises OSError.

        The inode must differ as well: a share that is mounted again may have another device number.
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


def store_unavailable(directory: str) -> OSError:
    """Return the error for a file whose directory is missing as well."""
    return OSError(
        f"its directory {directory} is not there: is its store mounted, and can this machine reach it? Its files are "
        "not lost if it comes back"
    )
