"""One part file: written under a hidden name, published by a rename."""

from __future__ import annotations

import re

import msgspec
from pyarrow import fs

from penstock.common.stored import stored_as
from penstock.connectors.files.sink.rolling import PartInfo


class OutputFileConfig:
    """How part files are named: `<prefix>-<writer>-<number><suffix>`."""

    def __init__(self, part_prefix: str = "part", part_suffix: str = "") -> None:
        for what, text in (("prefix", part_prefix), ("suffix", part_suffix)):
            if "/" in text:
                raise ValueError(f"the part {what} must be a piece of a file name, got {text!r}")
        if not part_prefix or part_prefix[0] in "._":
            raise ValueError(f"the part prefix must not be empty or start with . or _ (hidden), got {part_prefix!r}")
        self._part_prefix = part_prefix
        self._part_suffix = part_suffix

    @staticmethod
    def builder() -> OutputFileConfigBuilder:
        """Starts from `part` and no suffix."""
        return OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """What names begin with."""
        return self._part_prefix

    def get_part_suffix(self) -> str:
        """What names end with, for instance `.json`."""
        return self._part_suffix


class OutputFileConfigBuilder:
    """Builds an OutputFileConfig; each method returns the builder."""

    def __init__(self) -> None:
        self._part_prefix = "part"
        self._part_suffix = ""

    def with_part_prefix(self, prefix: str) -> OutputFileConfigBuilder:
        """What names begin with."""
        self._part_prefix = prefix
        return self

    def with_part_suffix(self, suffix: str) -> OutputFileConfigBuilder:
        """What names end with."""
        self._part_suffix = suffix
        return self

    def build(self) -> OutputFileConfig:
        """The configuration."""
        return OutputFileConfig(self._part_prefix, self._part_suffix)


@stored_as("pending-file")
class PendingFile(msgspec.Struct, frozen=True, gc=False):
    """A committable: a complete file under its hidden name, and the name it is to get (full paths or URLs)."""

    pending_path: str
    final_path: str
    size: int


def hidden_name(final_name: str, attempt: str) -> str:
    """The name of a file before it is committed: no reader takes it, and it tells which attempt wrote it."""
    return f".{final_name}.{re.sub(r'[^A-Za-z0-9_-]', '-', attempt)}.inprogress"


class PartFile:
    """A file being written. Abstract: `RowPart` and `BulkPart` say how records get into it."""

    def __init__(self, file_system: fs.FileSystem, inner_path: str, pending: PendingFile, now_ms: int) -> None:
        """`inner_path`: the pending path as `file_system` names it."""
        self._file_system = file_system
        self._inner_path = inner_path
        self._pending = pending
        self._stream = file_system.open_output_stream(inner_path, compression=None)
        self.size = 0
        self.created_ms = self.written_ms = now_ms

    def info(self) -> PartInfo:
        """What a rolling policy looks at."""
        return PartInfo(self.size, self.created_ms, self.written_ms)

    def flush(self) -> None:
        """Hand everything to the file system."""
        self._stream.flush()

    def finish(self) -> PendingFile:
        """Close the file; it is complete."""
        self._stream.close()
        return PendingFile(self._pending.pending_path, self._pending.final_path, self.size)

    def discard(self) -> None:
        """Close the file and remove it."""
        self._stream.close()
        self._file_system.delete_file(self._inner_path)
