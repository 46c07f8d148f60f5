"""Write the records of one subtask to part files, with one open file per bucket.

This base class has the part that all formats share: file names, buckets, rolling, committables, state.
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
from penstock.common.errors.disk_errors import naming_file
from penstock.common.time.earliest import earliest
from penstock.connectors.files.formats.compression import codec_by_name, codec_of
from penstock.connectors.files.located import Located
from penstock.connectors.files.sink.bucket import BasePathBucketAssigner, BucketContext, FoldersOfValues
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
    """Write chunks of records to files that become visible when a committer has run.

    File names are unique over all runs of all jobs that write to one directory (each writer draws 48 random bits), so a
    commit cannot overwrite a file published by another writer.
    """

    _can_continue = True
    """Whether records can be appended to a file of another writer."""

    def __init__(self, context: SinkContext, settings: FileSinkSettings, restored: Sequence[Any] = ()) -> None:
        self._context = context
        self._base_path = settings.base_path
        self._assigner = settings.assigner
        self._one_bucket = isinstance(settings.assigner, BasePathBucketAssigner)
        self._policy = settings.policy
        self._names = settings.names
        self._codec_of_names = codec_of(settings.names.get_part_suffix())
        self._codec = None if settings.compression is None else codec_by_name(settings.compression)
        self._writer_name = f"{context.subtask}-{uuid.uuid4().hex[:12]}"
        self._file_count = 0
        self._open: dict[str, Part] = {}
        self._pending: list[Any] = []
        self._closes_all = False
        self._is_savepoint = False
        self._renamed = RenamedFiles(settings.base_path, context)
        client = client_of(settings.base_path)
        visible = self._renamed if client is None else Uploads(settings.base_path, client)
        # Compaction reads the small files again, which is impossible for the parts of an upload.
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
            with naming_file(self._base_path):
                self._restore(restored)
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _append(self, bucket: str, records: list[Any], now_ms: int) -> None:
        """Write records of one bucket, and close files that are full."""

    @abstractmethod
    def _new_part(self, file: RecoverableFile, created_ms: int) -> Part:
        """Create a part file in a file that may already contain records if the format can continue it."""

    def write(self, value: Any, timestamp: int | None) -> None:
        """Write one record. Prefer `write_chunk`."""
        self.write_chunk([value], None if timestamp is None else [timestamp])

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Write a chunk. Records of a bucket keep their order, and each bucket is written to once."""
        now_ms = self._context.now_ms()
        if self._one_bucket:
            with naming_file(self._base_path):
                self._append("", values, now_ms)
            return
        watermark = self._context.current_watermark()
        bucket_of = self._assigner.get_bucket_id
        buckets: dict[str, list[Any]] = {}
        for index, value in enumerate(values):
            timestamp = None if timestamps is None else timestamps[index]
            bucket = bucket_of(value, BucketContext(timestamp, now_ms, watermark))
            buckets.setdefault(bucket, []).append(value)
        with naming_file(self._base_path):
            for bucket, records in buckets.items():
                self._append(bucket, records, now_ms)

    def write_columns(self, batch: Any, timestamps: Any = None) -> None:
        """Write a batch: to one bucket, or divided by the values of columns that determine the bucket."""
        now_ms = self._context.now_ms()
        context = BucketContext(None, now_ms, self._context.current_watermark())
        if isinstance(self._assigner, FoldersOfValues):
            # Programs on rows import nothing of columns.
            from penstock.connectors.files.sink.divided import divided

            parts = divided(batch, self._assigner.columns, lambda values: self._assigner.get_bucket_id(values, context))
        else:
            parts = iter([("" if self._one_bucket else self._assigner.get_bucket_id(None, context), batch)])
        for bucket, part in parts:
            with naming_file(self._base_path):
                self._append(bucket, part, now_ms)

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
        """Flush to the file system. The end of the input causes all files to be closed."""
        self._closes_all = self._closes_all or end_of_input
        with naming_file(self._base_path):
            for part in self._open.values():
                part.flush()

    def prepare_savepoint(self) -> None:
        """Close all files: several jobs may start from the savepoint, and only one can continue a file."""
        self._closes_all = self._is_savepoint = True

    def prepare_commit(self) -> list[Any]:
        """Close files that must not stay open across a checkpoint. Return the files completed since the last call."""
        # Also without checkpoints: the writer has no stored state, and this may be the last commit.
        everything = self._closes_all or not self._context.checkpointing
        for bucket, part in list(self._open.items()):
            if everything or not self._files.resumes or self._policy.rolls_on_checkpoint(part.info()):
                self._roll(bucket)
        if self._compaction is not None:
            self._pending += self._compaction.take(everything)
        self._closes_all = self._is_savepoint = False
        pending, self._pending = self._pending, []
        return pending

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the open files, and the files that are not compacted yet."""
        compaction = self._compaction.items() if self._compaction is not None else []
        with naming_file(self._base_path):
            return [*(part.persist(bucket) for bucket, part in self._open.items()), *compaction]

    def close(self) -> None:
        """Remove the files that are neither committables nor part of a checkpoint."""
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
                self._continue(item)

    def _continue(self, item: PartInProgress) -> None:
        # By the kind of the file, which may differ from the kind of new files.
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
        # Before a change of parallelism another subtask may have written to the same bucket.
        if self._can_continue and is_same and item.bucket not in self._open and self._files.resumes:
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
        """Return a path for a new file. `like`: a file name whose compression the new file has."""
        number, self._file_count = self._file_count, self._file_count + 1
        suffix = self._names.get_part_suffix()
        codec = self._codec_of_names if like is None else codec_of(like)
        if codec is not self._codec_of_names:
            suffix = codec.suffix if codec is not None else ""
        name = f"{kind}{self._names.get_part_prefix()}-{self._writer_name}-{number}{suffix}"
        return posixpath.join(bucket_path(bucket), name)

    def _roll(self, bucket: str) -> None:
        # Finish before removing it from the open files: if finishing fails, `close` still deletes the file.
        with naming_file(self._base_path):
            file = self._open[bucket].finish()
            if self._is_savepoint and isinstance(file, PendingFile) and file.is_persisted:
                file = self._renamed.for_savepoint(file)
        del self._open[bucket]
        self._completed(bucket, file, self._context.job_id)

    def _completed(self, bucket: str, file: Any, job_id: str) -> None:
        # A file with another codec cannot be compacted with the new ones.
        fits = isinstance(file, PendingFile) and codec_of(file.final_path) is self._codec_of_names
        if self._compaction is not None and fits:
            self._compaction.add(FileToCompact(bucket, file, job_id))
        else:
            self._pending.append(file)


def bucket_path(bucket: object) -> str:
    """Validate a bucket as a relative path. Raise TypeError or ValueError if it leaves the base path or is hidden."""
    if not isinstance(bucket, str):
        raise TypeError(f"a bucket assigner must return a str, got {bucket!r}")
    if bucket and (bucket.startswith("/") or any(part in ("", ".", "..") for part in bucket.rstrip("/").split("/"))):
        raise ValueError(f"a bucket must be a relative path without . and .., got {bucket!r}")
    return bucket.rstrip("/")
