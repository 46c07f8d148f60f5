"""Part files: their names, and the files being written."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.common.stored import stored_as
from penstock.connectors.files.sink.recoverable import RecoverableFile
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
    """Build an OutputFileConfig; each method returns the builder."""

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


@stored_as("part-in-progress")
class PartInProgress(msgspec.Struct, frozen=True):
    """The state of a part file that is being written. `file`: the persisted RecoverableFile."""

    bucket: str
    created_ms: int
    file: Any


class PartFile:
    """A file being written. Its subclasses `RowPart` and `BulkPart` define how records are written."""

    def __init__(self, file: RecoverableFile, created_ms: int, now_ms: int) -> None:
        self._file = file
        self._out = file.out
        self.size = self._out.tell()
        self.created_ms = created_ms
        self.written_ms = now_ms

    def info(self) -> PartInfo:
        """Return the input of rolling policies."""
        return PartInfo(self.size, self.created_ms, self.written_ms)

    def flush(self) -> None:
        """Flush all data to the file system."""
        self._out.flush()

    def persist(self, bucket: str) -> PartInProgress:
        """Return the state for a checkpoint."""
        return PartInProgress(bucket, self.created_ms, self._file.persist())

    def finish(self) -> Any:
        """Close the complete file and sync it to disk, because a checkpoint will name it. Return a committable."""
        return self._file.finish()

    def discard(self) -> None:
        """Close the file, and remove it unless a checkpoint may need it."""
        self._file.discard()
