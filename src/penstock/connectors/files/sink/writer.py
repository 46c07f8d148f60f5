"""Writes the records of one subtask to part files, with one open file per bucket.

This base class is common to all formats: file names, buckets, rolling, committables.
"""

from __future__ import annotations

import posixpath
import uuid
from abc import abstractmethod
from typing import Any, Generic, TypeVar

from pyarrow import fs

from penstock.api.sink import SinkContext, SinkWriter
from penstock.common.durable import make_directory
from penstock.connectors.files.sink.bucket import BasePathBucketAssigner, BucketContext
from penstock.connectors.files.sink.part import OutputFileConfig, PartFile, PendingFile, hidden_name
from penstock.connectors.files.sink.rolling import RollingPolicy
from penstock.connectors.files.storage import resolve, resolve_below

Part = TypeVar("Part", bound=PartFile)


class FileWriter(SinkWriter[Any], Generic[Part]):
    """Writes chunks of records to hidden files, which a committer renames.

    File names are unique over all runs of all jobs that write to one directory (each writer draws 48 random bits), so
    a commit cannot overwrite a file published by another writer.
    """

    def __init__(
        self,
        context: SinkContext,
        base_path: str,
        assigner: Any,
        policy: RollingPolicy,
        names: OutputFileConfig,
    ) -> None:
        self._context = context
        self._base_path = base_path
        self._file_system, self._inner_base = resolve(base_path)
        self._assigner = assigner
        self._one_bucket = isinstance(assigner, BasePathBucketAssigner)
        self._policy = policy
        self._names = names
        self._writer_name = f"{context.subtask}-{uuid.uuid4().hex[:12]}"
        self._file_count = 0
        self._open: dict[str, Part] = {}
        self._pending: list[PendingFile] = []

    @abstractmethod
    def _append(self, bucket: str, records: list[Any], now_ms: int) -> None:
        """Write records of one bucket, and close files that are full."""

    @abstractmethod
    def _open_part(self, file_system: fs.FileSystem, inner_path: str, pending: PendingFile, now_ms: int) -> Part:
        """Open a new part file."""

    def write(self, value: Any, timestamp: int | None) -> None:
        """Write one record. Prefer `write_chunk`."""
        self.write_chunk([value], None if timestamp is None else [timestamp])

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Write a chunk. Records of a bucket keep their order, and each bucket is written to once."""
        now_ms = self._context.now_ms()
        if self._one_bucket:
            self._append("", values, now_ms)
            return
        watermark = self._context.current_watermark()
        bucket_of = self._assigner.get_bucket_id
        buckets: dict[str, list[Any]] = {}
        for index, value in enumerate(values):
            timestamp = None if timestamps is None else timestamps[index]
            bucket = bucket_of(value, BucketContext(timestamp, now_ms, watermark))
            buckets.setdefault(bucket, []).append(value)
        for bucket, records in buckets.items():
            self._append(bucket, records, now_ms)

    def wake_at_ms(self) -> int | None:
        """Return the earliest deadline of the open files, or None."""
        deadlines = [self._policy.deadline_ms(part.info()) for part in self._open.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def on_wake(self, now_ms: int) -> None:
        """Close the files whose deadline has passed."""
        for bucket, part in list(self._open.items()):
            deadline = self._policy.deadline_ms(part.info())
            if deadline is not None and deadline <= now_ms:
                self._roll(bucket)

    def flush(self, end_of_input: bool) -> None:
        """Flush to the file system; at the end of the input, close all files."""
        for bucket, part in list(self._open.items()):
            if end_of_input:
                self._roll(bucket)
            else:
                part.flush()

    def prepare_commit(self) -> list[Any]:
        """Close all files, and return those completed since the last call."""
        for bucket in list(self._open):
            self._roll(bucket)
        pending, self._pending = self._pending, []
        return pending

    def close(self) -> None:
        """Remove the files that were not handed over as committables."""
        while self._open:
            _, part = self._open.popitem()
            part.discard()
        while self._pending:
            self._file_system.delete_file(resolve_below(self._base_path, self._pending.pop().pending_path)[1])

    def _part(self, bucket: str, now_ms: int) -> Part:
        return self._open.get(bucket) or self._begin(bucket, now_ms)

    def _begin(self, bucket: str, now_ms: int) -> Part:
        path = bucket_path(bucket)
        name = f"{self._names.get_part_prefix()}-{self._writer_name}-{self._file_count}{self._names.get_part_suffix()}"
        self._file_count += 1
        hidden = posixpath.join(path, hidden_name(name, self._context.attempt))
        pending = PendingFile(_below(self._base_path, hidden), _below(self._base_path, posixpath.join(path, name)), 0)
        make_directory(self._file_system, _below(self._inner_base, path))
        part = self._open_part(self._file_system, _below(self._inner_base, hidden), pending, now_ms)
        self._open[bucket] = part
        return part

    def _roll(self, bucket: str) -> None:
        # Finish before removing it from the open files: if finishing fails, `close` still deletes the file.
        self._pending.append(self._open[bucket].finish())
        del self._open[bucket]


def bucket_path(bucket: object) -> str:
    """Validate a bucket as a relative path. Raises TypeError or ValueError if it leaves the base path or is hidden."""
    if not isinstance(bucket, str):
        raise TypeError(f"a bucket assigner must return a str, got {bucket!r}")
    if bucket and (bucket.startswith("/") or any(part in ("", ".", "..") for part in bucket.rstrip("/").split("/"))):
        raise ValueError(f"a bucket must be a relative path without . and .., got {bucket!r}")
    return bucket.rstrip("/")


def _below(base: str, relative: str) -> str:
    return f"{base.rstrip('/')}/{relative}" if relative else base
