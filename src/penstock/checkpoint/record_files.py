"""The entries of a job's record as files: `<job>/record/00000012`."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path

from pyarrow import fs

DIRECTORY = "record"


class RecordFiles:
    """Below the directory `root` of a job.

    On a local or mounted file system an entry is created by a hard link, which fails if the name exists: of two
    processes that try, one succeeds. pyarrow has no such operation for object stores. There it is looked before it is
    written, which leaves a moment in which both can succeed.
    """

    def __init__(self, system: fs.FileSystem, root: str) -> None:
        self._system = system
        self._directory = f"{root}/{DIRECTORY}"

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
        """Create an entry in one piece. False: there is one of that number, or the whole record was deleted."""
        # The first entry alone makes the directory: a run whose job was taken over, ended and deleted must not begin a
        # new record.
        if number == 1:
            self._system.create_dir(self._directory, recursive=True)
        if isinstance(self._system, fs.LocalFileSystem):
            return self._link(self._path(number), data)
        if self._system.get_file_info(self._path(number)).type is not fs.FileType.NotFound:
            return False
        with self._system.open_output_stream(self._path(number)) as stream:
            stream.write(data)
        return True

    def remove(self, number: int) -> None:
        """Remove an entry, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_file(self._path(number))

    def _path(self, number: int) -> str:
        return f"{self._directory}/{number:08d}"

    def _link(self, path: str, data: bytes) -> bool:
        unfinished = Path(f"{path}.{uuid.uuid4().hex}.unfinished")
        try:
            with unfinished.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(unfinished, path)
            descriptor = os.open(self._directory, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            return True
        except (FileExistsError, FileNotFoundError):
            return False
        finally:
            with contextlib.suppress(OSError):
                unfinished.unlink()
