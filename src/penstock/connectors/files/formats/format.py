"""The contract of file formats: how a file is cut into splits, and how the records of a split are read.

A FileSource is built for one of two kinds: RecordFormat or BatchFormat. `StreamFormat` and `BulkFormat` are what users
see of these: they make the formats that come with penstock, and a user's own format extends either.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Literal

from penstock.connectors.base.split_reader import Chunk
from penstock.connectors.files.split import FileSplit, FoundFile

OnError = Literal["fail", "skip"]


class FileFormat(ABC):
    """Reads files of one kind. Pickled to the workers, so it holds settings only and nothing open."""

    @abstractmethod
    def is_splittable(self, path: str) -> bool:
        """Return True if byte ranges of this file can be read independently."""

    @abstractmethod
    def read(self, split: FileSplit, skipped: Callable[[int], None]) -> Iterator[Chunk]:
        """Yield chunks of the records that belong to `split`, from its position on.

        The position of a chunk is the split at a place from which `read` would return the records that follow.
        `skipped` is called with the number of records skipped because they were damaged. Raises SourceError, naming the
        file, if it can't be read.
        """

    def check(self, file: FoundFile) -> None:
        """Raise SourceError if the first bytes show that the file does not have this format. Called at submission."""

    def get_produced_type(self) -> Any:
        """Return the TypeInformation of the records if it is known, else None."""
        return None


class RecordFormat(FileFormat):
    """A format that stores one record after another, as lines do."""


class BatchFormat(FileFormat):
    """A format that stores records in batches, as Parquet does."""


def python_charset(charset: str) -> str:
    """Return Python's name of a charset. Raises ValueError if it is unknown."""
    try:
        return codecs.lookup(charset).name
    except LookupError:
        raise ValueError(f"unknown charset {charset!r}") from None


def on_error_policy(on_error: str) -> OnError:
    """Return the argument if it is valid. Raises ValueError."""
    if on_error not in ("fail", "skip"):
        raise ValueError(f"on_error must be 'fail' or 'skip', got {on_error!r}")
    return on_error  # type: ignore[return-value]  # checked above
