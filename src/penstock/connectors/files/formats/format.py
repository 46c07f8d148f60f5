"""What a file format has to say: how a file is cut, and how the records of one piece are read.

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
    """Reads files of one kind. Pickled to the workers: holds settings, nothing open."""

    @abstractmethod
    def is_splittable(self, path: str) -> bool:
        """True if byte ranges of this file can be read apart from each other."""

    @abstractmethod
    def read(self, split: FileSplit, skipped: Callable[[int], None]) -> Iterator[Chunk]:
        """Chunks of the records that belong to `split`, from its position on.

        A chunk's position is the split at a place from which `read` would bring what follows. `skipped` is told how
        many records were passed over because they were damaged. Raises SourceError, naming the file, for what can't be
        read.
        """

    def check(self, file: FoundFile) -> None:
        """Raise SourceError if this is no file of the format, as far as its first bytes tell. Called at submission."""

    def get_produced_type(self) -> Any:
        """TypeInformation of the records where it is known, else None."""
        return None


class RecordFormat(FileFormat):
    """A format that stores one record after another, as lines do."""


class BatchFormat(FileFormat):
    """A format that stores records in batches, as Parquet does."""


def python_charset(charset: str) -> str:
    """Python's name of a charset. Raises ValueError if there is none."""
    try:
        return codecs.lookup(charset).name
    except LookupError:
        raise ValueError(f"unknown charset {charset!r}") from None


def on_error_policy(on_error: str) -> OnError:
    """The argument, checked. Raises ValueError."""
    if on_error not in ("fail", "skip"):
        raise ValueError(f"on_error must be 'fail' or 'skip', got {on_error!r}")
    return on_error  # type: ignore[return-value]  # checked above
