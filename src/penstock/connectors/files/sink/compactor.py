"""How several files become one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import IO

_COPIED_AT_ONCE = 1 << 20


class BadInputError(Exception):
    """One of the files can't be read. `position`: among the inputs."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position


class FileCompactor(ABC):
    """Makes one file of several. Pickled to the workers; called in threads of its own, several at once."""

    @abstractmethod
    def compact(self, inputs: Sequence[IO[bytes]], output: IO[bytes]) -> None:
        """Write what the files hold, which come in the order in which they were written. Don't close them."""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Return a compactor that appends one file to the other, with `file_delimiter` between them.

        For formats whose records stand by themselves, as lines do: not for Parquet, nor for files with a header.
        """
        return ConcatFileCompactor(file_delimiter)

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Return a compactor of single files, which stay as they are. It fails if there are several."""
        return IdenticalFileCompactor()


class ConcatFileCompactor(FileCompactor):
    """One file behind the other."""

    def __init__(self, file_delimiter: bytes | None) -> None:
        if file_delimiter is not None and not isinstance(file_delimiter, bytes):
            raise TypeError(f"the delimiter of files must be bytes, got {file_delimiter!r}")
        self.delimiter = file_delimiter

    def compact(self, inputs: Sequence[IO[bytes]], output: IO[bytes]) -> None:
        for position, file in enumerate(inputs):
            if position and self.delimiter:
                output.write(self.delimiter)
            while data := file.read(_COPIED_AT_ONCE):
                output.write(data)


class IdenticalFileCompactor(FileCompactor):
    """The only file."""

    def compact(self, inputs: Sequence[IO[bytes]], output: IO[bytes]) -> None:
        if len(inputs) > 1:
            raise ValueError(f"the identical file compactor takes one file at a time, got {len(inputs)}")
        ConcatFileCompactor(None).compact(inputs, output)
