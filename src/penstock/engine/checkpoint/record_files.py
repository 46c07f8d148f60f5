"""The entries of a job's record as files: `<job>/record/00000012`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from pyarrow import fs

from penstock.common.files.exclusive_creation import Create
from penstock.common.files.known_directory import KnownDirectory

DIRECTORY = "record"


class RecordFiles:
    """The record below a job's directory `root`. `creation` returns a function that creates a file exclusively.

    It is called before the first entry is created: workers, and readers that look for the latest checkpoint, create no
    entries.
    """

    def __init__(self, system: fs.FileSystem, root: str, creation: Callable[[], Create]) -> None:
        self._system = system
        self._directory = f"{root}/{DIRECTORY}"
        self._of_jobs = KnownDirectory(system, root.rpartition("/")[0])
        self._creation = creation
        self._create: Create | None = None

    def numbers(self) -> list[int]:
        """Return the numbers of all entries, ascending."""
        found = self._system.get_file_info(fs.FileSelector(self._directory, allow_not_found=True))
        return sorted(int(entry.base_name) for entry in found if entry.base_name.isdecimal())

    def read(self, number: int) -> bytes:
        """Return the content of an entry. Raises FileNotFoundError if it does not exist."""
        with self._system.open_input_stream(self._path(number)) as stream:
            data: bytes = stream.read()
            return data

    def create(self, number: int, data: bytes) -> bool:
        """Create an entry atomically. False: the entry exists, or the whole record was deleted.

        Raises OSError if the directory of all jobs has disappeared: its store is unavailable.
        """
        # Only the first entry creates the directory: a run whose job was taken over, ended and deleted must not begin
        # a new record.
        if number == 1:
            self._system.create_dir(self._directory, recursive=True)
        self._create = self._create or self._creation()
        is_created = self._create(self._path(number), data)
        if is_created:
            self._of_jobs.identify()
        else:
            self._of_jobs.check_available(self._directory)
        return is_created

    def remove(self, number: int) -> None:
        """Remove an entry, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_file(self._path(number))

    def _path(self, number: int) -> str:
        return f"{self._directory}/{number:08d}"
