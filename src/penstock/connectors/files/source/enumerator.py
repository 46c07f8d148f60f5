"""Discover the files of a FileSource, once or periodically, and divide them into splits."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

import msgspec

from penstock.api.source import EnumeratorContext
from penstock.common.errors import SourceError
from penstock.common.stored import stored_as
from penstock.common.text.secrets import without_secrets
from penstock.connectors.base.split_enumerator import SharedSplitEnumerator
from penstock.connectors.files.formats.format import FileFormat
from penstock.connectors.files.source.listing import list_files
from penstock.connectors.files.split import FileSplit, FoundFile, cut, whole

_log = logging.getLogger(__name__)


@stored_as("file-enumerator")
class FileEnumeratorState(msgspec.Struct, frozen=True):
    """Splits not yet assigned, and the paths of all files ever discovered (used only in continuous mode)."""

    pending: list[FileSplit]
    seen: frozenset[str] = frozenset()


class FileEnumerator(SharedSplitEnumerator):
    """Assign file splits ordered by path and offset; files discovered later follow those discovered before."""

    def __init__(
        self,
        context: EnumeratorContext,
        paths: Sequence[str],
        file_format: FileFormat,
        split_bytes: int | None,
        discovery_interval_ms: int | None,
        path_pattern: re.Pattern[str] | None = None,
        state: FileEnumeratorState | None = None,
    ) -> None:
        """`split_bytes` None: each file is one split. `path_pattern`: of the whole paths of files; None: all.

        `discovery_interval_ms` None: files are listed once, in `start`.
        """
        super().__init__(context, more_to_come=discovery_interval_ms is not None, restored=state is not None)
        self._paths = paths
        self._path_pattern = path_pattern
        self._format = file_format
        self._split_bytes = split_bytes
        self._discovery_interval_ms = discovery_interval_ms
        self._restored = state is not None
        self._is_listing = False
        self._has_listed = False
        self._skipped: set[str] = set()
        self._warned_of: set[str] = set()
        self.found: set[str] = set(state.seen) if state else set()
        """The paths of all files ever discovered."""
        if state:
            self.add_splits(state.pending)

    def start(self) -> None:
        """List the files, unless they were restored from a snapshot. A missing path fails the job with SourceError."""
        if not self._restored and self._discovery_interval_ms is None:
            self._list()

    def discover(self) -> int | None:
        """Add files that are new since the last listing. A file that changes after its discovery is not read again."""
        if self._discovery_interval_ms is None:
            return None
        if not self._is_listing:
            self._list()
        return self._context.now_ms() + self._discovery_interval_ms

    def snapshot_state(self) -> FileEnumeratorState:
        """Return the splits not yet assigned and the discovered paths."""
        watching = self._discovery_interval_ms is not None
        return FileEnumeratorState(self.pending(), frozenset(self.found) if watching else frozenset())

    def _list(self) -> None:
        self._is_listing = True
        self._context.call_async(self.find, self._listed)

    def find(self) -> list[FoundFile]:
        """List all files. Called on another thread."""
        if self._discovery_interval_ms is None:
            return self._wanted(list_files(self._paths))
        # In continuous mode a file without a valid name must not end the job.
        return self._wanted(list_files(self._paths, must_exist=False, skipped=self._skipped))

    def _wanted(self, files: list[FoundFile]) -> list[FoundFile]:
        return wanted(files, self._path_pattern)

    def _listed(self, files: list[FoundFile] | None, error: Exception | None) -> None:
        self._is_listing = False
        if files is None:
            assert error is not None
            if not self._has_listed or not isinstance(error, SourceError | OSError):
                raise error
            # In continuous mode a store or a directory may be unavailable for a moment.
            _log.warning(
                "cannot list files, retrying in %d ms: %s", self._discovery_interval_ms, without_secrets(str(error))
            )
            return
        if not files and not self._has_listed:
            paths = without_secrets(", ".join(self._paths))
            if self._discovery_interval_ms is None:
                _log.warning("no file matches, so the source has no records: %s", paths)
            else:
                _log.warning(
                    "no file matches yet, the source checks again every %d ms: %s", self._discovery_interval_ms, paths
                )
        self._has_listed = True
        for path in sorted(self._skipped - self._warned_of):
            _log.warning("skipped %s: its name is not UTF-8. Rename it to have it read", path)
            self._warned_of.add(path)
        splits: list[FileSplit] = []
        for file in files:
            if file.path in self.found:
                continue
            self.found.add(file.path)
            splits += splits_of(file, self._format, self._split_bytes)
        self.add_splits(splits)


def wanted(files: list[FoundFile], pattern: re.Pattern[str] | None) -> list[FoundFile]:
    """Return the files whose whole path matches; None: all."""
    return files if pattern is None else [one for one in files if pattern.fullmatch(_in_store(one.path))]


def splits_of(file: FoundFile, file_format: FileFormat, split_bytes: int | None) -> list[FileSplit]:
    """Return the splits of a file: one, if its format does not divide it, or `split_bytes` is None."""
    if split_bytes is not None and file_format.is_splittable(file.path):
        return cut(file, split_bytes)
    return [whole(file)]


def _in_store(path: str) -> str:
    """Return a path without its scheme and bucket, as Flink has it: /key of s3://bucket/key."""
    _, is_url, rest = path.partition("://")
    return f"/{rest.partition('/')[2]}" if is_url else path
