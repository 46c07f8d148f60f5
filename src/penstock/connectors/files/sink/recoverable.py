"""Files that survive a failure of their writer while they are being written.

    write ... persist ... write ... persist ... write ... finish ─▶ committable
                 │                     └─▶ in checkpoint 6
                 └─▶ in checkpoint 5: a restart from there goes on behind the bytes of before

Each file is written by one attempt only: what a stopped attempt still writes when it wakes up is in no file of its
successor. Source: Flink, `RecoverableWriter` and `RecoverableFsDataOutputStream`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import IO, Any, NamedTuple


class RecoverableFile(ABC):
    """A file that is being written. It becomes visible when what `finish` returns is committed."""

    out: IO[bytes]
    """To write to. Without `finish` a file must end where a call of `write` did."""

    @abstractmethod
    def persist(self) -> Any:
        """What `RecoverableWriter.recover` needs to go on from here. All that was written is durable."""

    @abstractmethod
    def finish(self) -> Any:
        """Close the complete file. Returns a committable; what it names is durable."""

    @abstractmethod
    def discard(self) -> None:
        """Close the file, and remove it unless a checkpoint may need it."""


class Recovered(NamedTuple):
    """The outcome for a file that was persisted."""

    committables: list[Any]
    """Parts of it that are complete files."""
    file: RecoverableFile | None
    """What holds the rest, or all of it. None: it is visible already."""


class RecoverableWriter(ABC):
    """Opens the files of one subtask. `path` is that of the visible file, relative to the base path."""

    resumes = True
    """Whether files can be persisted; else they are finished for each checkpoint."""

    @abstractmethod
    def open(self, path: str) -> RecoverableFile:
        """Begin a file."""

    @abstractmethod
    def recover(self, persisted: Any, path: str) -> Recovered:
        """Go on with a file. Raises JobError if there is less of it than was persisted."""
