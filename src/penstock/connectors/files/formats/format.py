"""The contract of file formats: how to divide a file into splits, and how to read the records of a split.

A FileSource takes one of two kinds: RecordFormat or BatchFormat. Users create the formats of penstock with
`StreamFormat` and `BulkFormat`; a format of their own extends one of the two kinds.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal

import msgspec

from penstock.api.output_tag import OutputTag
from penstock.common.types.type_variables import Record
from penstock.connectors.base.split_reader import Chunk
from penstock.connectors.files.split import FileSplit, FoundFile

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

OnError = Literal["fail", "skip", "emit"]
OnUnreadable = OnError | OutputTag[Any]
"""What happens to a record that cannot be read; an OutputTag: its side output gets an UnreadableLine."""


class UnreadableLine(msgspec.Struct, frozen=True):
    """Emitted by `on_error="emit"` instead of an unreadable record, or to a side output: `error` is the reason.

    `byte`: its position in the file, or in the decoded text of a file that is compressed or not in UTF-8.
    """

    path: str
    byte: int
    line: bytes
    error: str


class FileFormat(ABC, Generic[Record]):
    """Read files of one kind. Pickled to the workers, so it contains only settings, and no open files."""

    @abstractmethod
    def is_splittable(self, path: str) -> bool:
        """Return True if byte ranges of this file can be read independently."""

    @abstractmethod
    def read(self, split: FileSplit, skipped: Callable[[int], None]) -> Iterator[Chunk]:
        """Yield chunks of the records that belong to `split`, from its position on.

        The position of a chunk is the split at a place from which `read` would return the records that follow.
        `skipped` is called with the number of damaged records that were skipped. Raise SourceError, which names the
        file, if it cannot be read.
        """

    def check(self, file: FoundFile) -> None:
        """Raise SourceError if the first bytes show that the file does not have this format. Called at submission."""

    def on_columns(self, columns: RecordColumns) -> FileFormat[Any] | None:
        """Return a format whose chunks have a pyarrow.RecordBatch of these columns as values; None if there is none."""
        return None

    def get_produced_type(self) -> Any:
        """Return the TypeInformation of the records if it is known, else None."""
        return None


class RecordFormat(FileFormat[Record]):
    """A format that stores one record after another, such as lines."""


class BatchFormat(FileFormat[Record]):
    """A format that stores records in batches, such as Parquet."""


def python_charset(charset: str) -> str:
    """Return Python's name of a charset. Raise ValueError if it is unknown."""
    try:
        return codecs.lookup(charset).name
    except LookupError:
        raise ValueError(f"unknown charset {charset!r}") from None


def on_error_policy(on_error: Any) -> OnUnreadable:
    """Return the argument if it is valid. Raise ValueError otherwise."""
    if not isinstance(on_error, OutputTag) and on_error not in ("fail", "skip", "emit"):
        raise ValueError(f"on_error must be 'fail', 'skip', 'emit' or an OutputTag, got {on_error!r}")
    return on_error  # type: ignore[no-any-return]  # checked above
