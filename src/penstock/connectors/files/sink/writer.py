"""Writes the records of one subtask to part files, with one open file per bucket.

This base class is common to all formats: file names, buckets, rolling, committables, what a checkpoint holds.
"""

from __future__ import annotations

import posixpath
import uuid
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

from penstock.api.sink import SinkContext, SinkWriter
from penstock.common.doors.extras import S3
from penstock.common.errors import JobError
from penstock.common.errors.disk_errors import naming
from penstock.common.time.earliest import earliest
from penstock.connectors.files.formats.compression import codec_named, codec_of
from penstock.connectors.files.located import Located
from penstock.connectors.files.sink.bucket import BasePathBucketAssigner, BucketContext
from penstock.connectors.files.sink.committer import FileCommitter
from penstock.connectors.files.sink.compaction import Compaction, FileCompactor, FileCompactStrategy, FileToCompact
from penstock.connectors.files.sink.part import OutputFileConfig, PartFile, PartInProgress
from penstock.connectors.files.sink.recoverable import RecoverableFile, RecoverableWriter
from penstock.connectors.files.sink.renamed_files import FileInProgress, PendingFile, RenamedFiles
from penstock.connectors.files.sink.rolling import RollingPolicy
from penstock.connectors.files.sink.uploads import Uploads, client_of

Part = TypeVar("Part", bound=PartFile)


class FileSinkSettings(Located, frozen=True):
    """The settings of a builder. Each change makes a new object."""

    base_path: str
    assigner: Any
    policy: RollingPolicy
    names: OutputFileConfig
    compaction: tuple[FileCompactStrategy, FileCompactor] | None = None
    compression: str | None = None
    """The codec of row formats: then names end with its suffix."""


class FileWriter(SinkWriter[Any], Generic[Part]):
    """Writes chunks of records to files that become visible when a committer has run.

    File names are unique over all runs of all jobs that write to one directory (each writer draws 48 random bits), so
    a commit cannot overwrite a file published by another writer.
    """

    _can_go_on = True
    """Whether records can be appended to a file that another writer has begun."""

    def __init__(self, context: SinkContext, settings: FileSinkSettings, restored: Sequence[Any] = ()) -> None:
        self._context = context
        self._base_path = settings.base_path
        self._assigner = settings.assigner
        self._one_bucket = isinstance(settings.assigner, BasePathBucketAssigner)
        self._policy = settings.policy
        self._names = settings.names
        self._codec_of_names = codec_of(settings.names.get_part_suffix())
        self._codec = None if settings.compression is None else codec_named(settings.compression)
        self._writer_name = f"{context.subtask}-{uuid.uuid4().hex[:12]}"
        self._file_count = 0
        self._open: dict[str, Part] = {}
        self._pending: list[Any] = []
        self._hands_over_all = False
        self._is_savepoint = False
        self._renamed = RenamedFiles(settings.base_path, context)
        client = client_of(settings.base_path)
        visible = self._renamed if client is None else Uploads(settings.base_path, client)
        # Small files are read again, which the parts of an upload can't be.
        self._files: RecoverableWriter = visible if settings.compaction is None else self._renamed
        self._compaction: Compaction | None = None
        if settings.compaction is not None:
            self._compaction = Compaction(
                *settings.compaction,
                settings.base_path,
                context.job_id,
                lambda bucket: self._new_path(bucket, "compacted-"),
                visible.open,
            )
        try:
            with naming(self._base_path):
                self._restore(restored)
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _append(self, bucket: str, records: list[Any], now_ms: int) -> None:
        """Write records of one bucket, and close files that are full."""

    @abstractmethod
    def _new_part(self, file: RecoverableFile, created_ms: int) -> Part:
        """A part file, in a file that may hold records already if the format can go on with these."""

    def write(self, value: Any, timestamp: int | None) -> None:
        """Write one record. Prefer `write_chunk`."""
        self.write_chunk([value], None if timestamp is None else [timestamp])

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Write a chunk. Records of a bucket keep their order, and each bucket is written to once."""
        now_ms = self._context.now_ms()
        if self._one_bucket:
            with naming(self._base_path):
                self._append("", values, now_ms)
            return
        watermark = self._context.current_watermark()
        bucket_of = self._assigner.get_bucket_id
        buckets: dict[str, list[Any]] = {}
        for index, value in enumerate(values):
            timestamp = None if timestamps is None else timestamps[index]
            bucket = bucket_of(value, BucketContext(timestamp, now_ms, watermark))
            buckets.setdefault(bucket, []).append(value)
        with naming(self._base_path):
            for bucket, records in buckets.items():
                self._append(bucket, records, now_ms)

    def wake_at_ms(self) -> int | None:
        """Return the earliest deadline of the open files, or None."""
        deadlines = [self._policy.deadline_ms(part.info()) for part in self._open.values()]
        return earliest(*deadlines)

    def on_wake(self, now_ms: int) -> None:
        """Close the files whose deadline has passed."""
        for bucket, part in list(self._open.items()):
            deadline = self._policy.deadline_ms(part.info())
            if deadline is not None and deadline <= now_ms:
                self._roll(bucket)

    def flush(self, end_of_input: bool) -> None:
        """Flush to the file system. At the end of the input all files will be closed."""
        self._hands_over_all = self._hands_over_all or end_of_input
        with naming(self._base_path):
            for part in self._open.values():
                part.flush()

    def prepare_savepoint(self) -> None:
        """All files will be closed: several jobs may start from the savepoint, and only one can go on with a file."""
        self._hands_over_all = self._is_savepoint = True

    def prepare_commit(self) -> list[Any]:
        """Close the files that don't go on over a checkpoint, and return those completed since the last call."""
        # Without checkpoints, too: nothing of the writer is stored, and no further commit may follow.
        everything = self._hands_over_all or not self._context.checkpointing
        for bucket, part in list(self._open.items()):
            if everything or not self._files.resumes or self._policy.rolls_on_checkpoint(part.info()):
                self._roll(bucket)
        if self._compaction is not None:
            self._pending += self._compaction.take(everything)
        self._hands_over_all = self._is_savepoint = False
        pending, self._pending = self._pending, []
        return pending

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the open files, and the files that are not compacted yet."""
        compaction = self._compaction.items() if self._compaction is not None else []
        with naming(self._base_path):
            return [*(part.persist(bucket) for bucket, part in self._open.items()), *compaction]

    def close(self) -> None:
        """Remove the files that were not handed over, neither as committables nor to a checkpoint."""
        while self._open:
            _, part = self._open.popitem()
            part.discard()
        pending, self._pending = self._pending, []
        FileCommitter(self._base_path).abort(pending)
        if self._compaction is not None:
            self._compaction.close()

    def _restore(self, items: Sequence[Any]) -> None:
        for item in items:
            if isinstance(item, FileToCompact):
                self._completed(item.bucket, msgspec.structs.replace(item.file, is_persisted=True), item.job_id)
            else:
                self._go_on_with(item)

    def _go_on_with(self, item: PartInProgress) -> None:
        # As it was written, which need not be as it is written now.
        files: RecoverableWriter = self._renamed
        if not isinstance(item.file, FileInProgress):
            client = client_of(self._base_path)
            if client is None:
                raise JobError(f"continuing files in {self._base_path} needs boto3: pip install '{S3}'")
            files = Uploads(self._base_path, client)
        is_same = codec_of(item.file.final_path) is self._codec_of_names
        complete, file = files.recover(item.file, self._new_path(item.bucket, like=item.file.final_path))
        self._pending += complete
        if file is None:
            return
        # Another subtask may have written to the bucket, too, before the parallelism changed.
        if self._can_go_on and is_same and item.bucket not in self._open and self._files.resumes:
            self._open[item.bucket] = self._new_part(file, item.created_ms)
        else:
            self._completed(item.bucket, file.finish(), self._context.job_id)

    def _part(self, bucket: str, now_ms: int) -> Part:
        part = self._open.get(bucket)
        if part is None:
            file = self._files.open(self._new_path(bucket))
            try:
                part = self._open[bucket] = self._new_part(file, now_ms)
            except BaseException:
                file.discard()
                raise
        return part

    def _new_path(self, bucket: str, kind: str = "", like: str | None = None) -> str:
        """`like`: of a file that is compressed, or is not, as the one of this name is."""
        number, self._file_count = self._file_count, self._file_count + 1
        suffix = self._names.get_part_suffix()
        former = self._codec_of_names if like is None else codec_of(like)
        if former is not self._codec_of_names:
            suffix = former.suffix if former is not None else ""
        name = f"{kind}{self._names.get_part_prefix()}-{self._writer_name}-{number}{suffix}"
        return posixpath.join(bucket_path(bucket), name)

    def _roll(self, bucket: str) -> None:
        # Finish before removing it from the open files: if finishing fails, `close` still deletes the file.
        with naming(self._base_path):
            file = self._open[bucket].finish()
            if self._is_savepoint and isinstance(file, PendingFile) and file.is_persisted:
                file = self._renamed.apart(file)
        del self._open[bucket]
        self._completed(bucket, file, self._context.job_id)

    def _completed(self, bucket: str, file: Any, job_id: str) -> None:
        # One that was begun with another codec is a file of its own.
        fits = isinstance(file, PendingFile) and codec_of(file.final_path) is self._codec_of_names
        if self._compaction is not None and fits:
            self._compaction.add(FileToCompact(bucket, file, job_id))
        else:
            self._pending.append(file)


def bucket_path(bucket: object) -> str:
    """Validate a bucket as a relative path. Raises TypeError or ValueError if it leaves the base path or is hidden."""
    if not isinstance(bucket, str):
        raise TypeError(f"a bucket assigner must return a str, got {bucket!r}")
    if bucket and (bucket.startswith("/") or any(part in ("", ".", "..") for part in bucket.rstrip("/").split("/"))):
        raise ValueError(f"a bucket must be a relative path without . and .., got {bucket!r}")
    return bucket.rstrip("/")
