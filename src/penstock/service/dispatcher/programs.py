"""Programs that were uploaded to a cluster to be run there: a Python file, or a zip of several.

Each is a folder, DIRECTORY/ID_NAME, as Flink names its jars, with the file, or the content of the zip.
"""

from __future__ import annotations

import contextlib
import errno
import lzma
import re
import shutil
import tempfile
import uuid
import zipfile
import zlib
from pathlib import Path
from typing import IO

import msgspec

from penstock.common.errors import ConfigurationError

_NAME = re.compile(r"\w[\w. +-]{0,150}\.(py|zip)")
_NAME_BYTES = 200
"""Together with an id, a file name has at most 255 bytes."""
_ID = re.compile(rf"[0-9a-f-]{{36}}_{_NAME.pattern}")
_MAIN = "__main__.py"
_FAULTS_OF_ZIPS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, RuntimeError)
_NUMBERS_OF_FAULTS = (None, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTDIR)
"""The errno of errors that an invalid zip causes, not the disk: invalid bzip2 data has no errno."""


class UploadedProgram(msgspec.Struct, frozen=True):
    """A program. `name`: of the uploaded file. `entries`: the files that can be run, the default one first."""

    id: str
    name: str
    uploaded_ms: int
    entries: list[str]


class Programs:
    """The programs of a cluster."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def all(self) -> list[UploadedProgram]:
        """Return the programs, newest first. Raises OSError."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for folder in self.directory.iterdir():
                # A program that is being removed is left out.
                with contextlib.suppress(FileNotFoundError):
                    if _ID.fullmatch(folder.name):
                        found.append(_described(folder))
        return sorted(found, key=lambda program: -program.uploaded_ms)

    def find(self, id: str) -> UploadedProgram | None:
        """Return a program, or None."""
        with contextlib.suppress(FileNotFoundError):
            if _ID.fullmatch(id):
                return _described(self.directory / id)
        return None

    def add(self, name: str, content: IO[bytes]) -> UploadedProgram:
        """Store a program.

        Raises ConfigurationError if it is invalid, OSError if it can't be stored; nothing is left then.
        """
        if not _NAME.fullmatch(name) or len(name.encode()) > _NAME_BYTES:
            raise ConfigurationError(
                "a program must be a Python file (NAME.py) or a zip of several (NAME.zip), named with letters, digits, "
                f"spaces and . _ + - in {_NAME_BYTES} bytes at most, got '{name}'"
            )
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = Path(tempfile.mkdtemp(prefix=".part-", dir=self.directory))
        try:
            if name.endswith(".zip"):
                _unpack(name, content, part)
            else:
                with (part / name).open("wb") as file:
                    shutil.copyfileobj(content, file)
            if not _entries(part):
                raise ConfigurationError(f"'{name}' has no Python file at its top: {_MAIN}, or any other one")
            folder = self.directory / f"{uuid.uuid4()}_{name}"
            part.rename(folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        return _described(folder)

    def remove(self, id: str) -> None:
        """Remove a program. Jobs that it has submitted have their own copy of the code. Raises OSError."""
        folder = self.directory / id
        # Renamed first, so that an incomplete program is never visible.
        gone = folder.with_name(f".gone-{uuid.uuid4()}")
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def file(self, program: UploadedProgram, entry: str | None) -> Path:
        """Return the file to run: `entry`, by its path within the program; None: the default.

        Raises ConfigurationError.
        """
        folder = (self.directory / program.id).resolve()
        wanted = entry or program.entries[0]
        path = folder if "\0" in wanted else (folder / wanted).resolve()
        if not (path.is_relative_to(folder) and path.is_file()):
            raise ConfigurationError(
                f"'{program.name}' has no file '{entry}' (entryClass). At its top are: {', '.join(program.entries)}"
            )
        return path


def _unpack(name: str, content: IO[bytes], folder: Path) -> None:
    try:
        with zipfile.ZipFile(content) as archive:
            # Names that lead out of the folder, and links, become files within it.
            archive.extractall(folder)
    except (*_FAULTS_OF_ZIPS, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _NUMBERS_OF_FAULTS:
            raise
        raise ConfigurationError(f"'{name}' cannot be unpacked: {error}") from error


def _described(folder: Path) -> UploadedProgram:
    name = folder.name.partition("_")[2]
    entries = _entries(folder)
    # Not the folder's time: Python writes bytecode of the program's modules into it when they are first run.
    uploaded_ns = (folder / next(iter(entries), "")).stat().st_mtime_ns
    return UploadedProgram(folder.name, name, uploaded_ns // 1_000_000, entries)


def _entries(folder: Path) -> list[str]:
    return sorted((path.name for path in folder.glob("*.py") if path.is_file()), key=lambda name: (name != _MAIN, name))
