"""Files that survive a failure of their writer while they are being written.

    write ... persist ... write ... persist ... write ... finish ─▶ committable
                 │                     └─▶ in checkpoint 6
                 └─▶ in checkpoint 5: a restart from there continues after these bytes

Only one attempt writes to a file: if a suspended attempt resumes, it cannot write to the files of its successor.
Source: Flink, `RecoverableWriter` and `RecoverableFsDataOutputStream`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import IO, Any, NamedTuple


class RecoverableFile(ABC):
    """A file that is being written. It becomes visible when the result of `finish` is committed."""

    out: IO[bytes]
    """The stream to write to. Without `finish` a file must end where a call of `write` ended."""

    @abstractmethod
    def persist(self) -> Any:
        """Make all written bytes durable. Return the state from which `RecoverableWriter.recover` continues."""

    @abstractmethod
    def finish(self) -> Any:
        """Close the complete file and make it durable. Return a committable."""

    @abstractmethod
    def discard(self) -> None:
        """Close the file, and remove it unless a checkpoint may need it."""


class Recovered(NamedTuple):
    """The result of the recovery of a persisted file."""

    committables: list[Any]
    """Parts of the file that are complete files."""
    file: RecoverableFile | None
    """The file with the remaining part, or None if the file is visible already."""


class RecoverableWriter(ABC):
    """Open the files of one subtask. `path`: the visible file, relative to the base path."""

    resumes = True
    """Whether files can be persisted; otherwise they are finished for each checkpoint."""

    @abstractmethod
    def open(self, path: str) -> RecoverableFile:
        """Begin a file."""

    @abstractmethod
    def recover(self, persisted: Any, path: str) -> Recovered:
        """Continue a persisted file. Raise JobError if bytes of it are missing."""
