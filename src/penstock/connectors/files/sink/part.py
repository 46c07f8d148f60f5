"""Part files: written under a hidden name, published by a rename."""

from __future__ import annotations

import re

import msgspec
from pyarrow import fs

from penstock.common.durable import sync, sync_parent
from penstock.common.stored import stored_as
from penstock.connectors.files.sink.rolling import PartInfo


class OutputFileConfig:
    """Names of part files: `<prefix>-<writer>-<number><suffix>`."""

    def __init__(self, part_prefix: str = "part", part_suffix: str = "") -> None:
        for what, text in (("prefix", part_prefix), ("suffix", part_suffix)):
            if "/" in text:
                raise ValueError(f"the part {what} must be part of a file name, got {text!r}")
        if not part_prefix or part_prefix[0] in "._":
            raise ValueError(f"the part prefix must not be empty or start with . or _ (hidden), got {part_prefix!r}")
        self._part_prefix = part_prefix
        self._part_suffix = part_suffix

    @staticmethod
    def builder() -> OutputFileConfigBuilder:
        """Return a builder with prefix `part` and no suffix."""
        return OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return the prefix of file names."""
        return self._part_prefix

    def get_part_suffix(self) -> str:
        """Return the suffix of file names, for instance `.json`."""
        return self._part_suffix


class OutputFileConfigBuilder:
    """Builds an OutputFileConfig; each method returns the builder."""

    def __init__(self) -> None:
        self._part_prefix = "part"
        self._part_suffix = ""

    def with_part_prefix(self, prefix: str) -> OutputFileConfigBuilder:
        """Set the prefix of file names."""
        self._part_prefix = prefix
        return self

    def with_part_suffix(self, suffix: str) -> OutputFileConfigBuilder:
        """Set the suffix of file names."""
        self._part_suffix = suffix
        return self

    def build(self) -> OutputFileConfig:
        """Return the configuration."""
        return OutputFileConfig(self._part_prefix, self._part_suffix)


@stored_as("pending-file")
class PendingFile(msgspec.Struct, frozen=True, gc=False):
    """A committable: a complete file under its hidden name, and its final name (full paths or URLs)."""

    pending_path: str
    final_path: str
    size: int


def hidden_name(final_name: str, attempt: str) -> str:
    """Return the name of a file before its commit: ignored by readers, and unique to the attempt that writes it."""
    return f".{final_name}.{re.sub(r'[^A-Za-z0-9_-]', '-', attempt)}.inprogress"


class PartFile:
    """A file being written. Abstract: `RowPart` and `BulkPart` define how records are written."""

    def __init__(self, file_system: fs.FileSystem, inner_path: str, pending: PendingFile, now_ms: int) -> None:
        """`inner_path`: the pending path inside `file_system`."""
        self._file_system = file_system
        self._inner_path = inner_path
        self._pending = pending
        self._stream = file_system.open_output_stream(inner_path, compression=None)
        self.size = 0
        self.created_ms = self.written_ms = now_ms

    def info(self) -> PartInfo:
        """Return the input of rolling policies."""
        return PartInfo(self.size, self.created_ms, self.written_ms)

    def flush(self) -> None:
        """Flush all data to the file system."""
        self._stream.flush()

    def finish(self) -> PendingFile:
        """Close the complete file, and have it on disk: a checkpoint will name it."""
        self._stream.close()
        sync(self._file_system, self._inner_path)
        sync_parent(self._file_system, self._inner_path)
        return PendingFile(self._pending.pending_path, self._pending.final_path, self.size)

    def discard(self) -> None:
        """Close the file and remove it."""
        self._stream.close()
        self._file_system.delete_file(self._inner_path)
