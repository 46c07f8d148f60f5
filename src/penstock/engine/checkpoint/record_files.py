"""The entries of a job's record as files: `<job>/record/00000012`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from pyarrow import fs

from penstock.common.files.exclusive_creation import Create
from penstock.common.files.known_directory import KnownDirectory

DIRECTORY = "record"


class RecordFiles:
    """Below the directory `root` of a job. `creation` gives what creates a file if there is none of its name.

    It is asked with the first entry: a worker creates none, nor does a reader that looks for the latest checkpoint.
    """

    def __init__(self, system: fs.FileSystem, root: str, creation: Callable[[], Create]) -> None:
        self._system = system
        self._directory = f"{root}/{DIRECTORY}"
        self._of_jobs = KnownDirectory(system, root.rpartition("/")[0])
        self._creation = creation
        self._create: Create | None = None

    def numbers(self) -> list[int]:
        """The numbers of all entries, ascending."""
        found = self._system.get_file_info(fs.FileSelector(self._directory, allow_not_found=True))
        return sorted(int(entry.base_name) for entry in found if entry.base_name.isdecimal())

    def read(self, number: int) -> bytes:
        """An entry. Raises FileNotFoundError if there is none of that number."""
        with self._system.open_input_stream(self._path(number)) as stream:
            data: bytes = stream.read()
            return data

    def create(self, number: int, data: bytes) -> bool:
        """Create an entry in one piece. False: there is one of that number, or the whole record was deleted.

        Raises OSError if the directory that holds those of all jobs is not there any more: its store is away.
        """
        # The first entry alone makes the directory: a run whose job was taken over, ended and deleted must not begin a
        # new record.
        if number == 1:
            self._system.create_dir(self._directory, recursive=True)
        self._create = self._create or self._creation()
        is_created = self._create(self._path(number), data)
        if is_created:
            self._of_jobs.note()
        else:
            self._of_jobs.check_not_away(self._directory)
        return is_created

    def remove(self, number: int) -> None:
        """Remove an entry, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_file(self._path(number))

    def _path(self, number: int) -> str:
        return f"{self._directory}/{number:08d}"
