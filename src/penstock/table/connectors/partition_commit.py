"""Commit of partitions: a partition that is complete gets a success file.

Each writer reports the partitions that it has written into, with its watermark and clock, at each checkpoint. The
committer writes the success files of those that are due by the slowest writer. A writer reports a partition until its
success file is there, so a commit that is lost with a failure is made up for. Source: Flink docs, "FileSystem SQL
Connector", Partition Commit.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import msgspec
import pyarrow
from pyarrow import fs

from penstock.api.sink import Committer, Sink, SinkContext, SinkWriter
from penstock.common.config_options import ConfigOption, option
from penstock.common.config_values import DurationType, TextType
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.stored import stored_as
from penstock.connectors.files.sink.bucket import BucketContext, strftime_pattern
from penstock.connectors.files.storage import resolve
from penstock.table.connectors.table_options import Choice, TableOptions

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns
    from penstock.connectors.files.sink.sink import FileSink
    from penstock.table.connectors.file_writing import PartitionFolders


class _Trigger(enum.Enum):
    PROCESS_TIME = "process-time"
    PARTITION_TIME = "partition-time"


TRIGGER = option("sink.partition-commit.trigger", Choice(_Trigger), _Trigger.PROCESS_TIME)
DELAY = option("sink.partition-commit.delay", DurationType(), 0)
POLICY = option("sink.partition-commit.policy.kind", TextType(), None)
SUCCESS_FILE = option("sink.partition-commit.success-file.name", TextType(), "_SUCCESS")
ZONE = option("sink.partition-commit.watermark-time-zone", TextType(), "UTC")
EXTRACTOR = option("partition.time-extractor.kind", TextType(), "default")
PATTERN = option("partition.time-extractor.timestamp-pattern", TextType(), None)
FORMATTER = option("partition.time-extractor.timestamp-formatter", TextType(), None)
PARTITION_OPTIONS: tuple[ConfigOption[Any], ...] = (
    TRIGGER,
    DELAY,
    POLICY,
    SUCCESS_FILE,
    ZONE,
    EXTRACTOR,
    PATTERN,
    FORMATTER,
)
_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d")


class PartitionCommit(msgspec.Struct, frozen=True):
    """When a partition is complete. `pattern`: how its time is made of its values: `$day $hour:00:00`.

    None: its first value is the time. `by_time`: by event time, when the watermark passes the partition's time and the
    delay; otherwise by the clock, when the delay has passed since the first row. Source: Flink's
    DefaultPartTimeExtractor, PartitionTimeCommitPredicate and ProcTimeCommitPredicate.
    """

    partitions: tuple[str, ...]
    by_time: bool
    delay_ms: int
    success_file: str
    zone: str
    pattern: str | None
    form: str | None

    def due_ms(self, values: dict[str, str], created_ms: int) -> int:
        """Return the time at which a partition is due (ms): a watermark, or the clock's. Raises ValueError."""
        if not self.by_time and not self.delay_ms:
            return created_ms
        # The time has to be passed, not only reached.
        return (self._time_ms(values) if self.by_time else created_ms) + self.delay_ms + 1

    def _time_ms(self, values: dict[str, str]) -> int:
        text = self.pattern or f"${self.partitions[0]}"
        # The longest name first: $day is not the beginning of $daytime.
        for name in sorted(self.partitions, key=len, reverse=True):
            text = text.replace(f"${name}", values[name])
        for form in _FORMS if self.form is None else (strftime_pattern(self.form),):
            try:
                local = datetime.strptime(text, form)
            except ValueError:
                continue
            return int(local.replace(tzinfo=ZoneInfo(self.zone)).timestamp() * 1000)
        raise ValueError(
            f"the partition {values} has no time: {text!r} is not like 2024-01-31 or 2024-01-31 12:00:00. Set "
            f"{PATTERN.key}, for example to '$day $hour:00:00'"
        )


def commit_of(options: TableOptions, partitions: tuple[str, ...]) -> PartitionCommit | None:
    """Return how partitions of a table are committed; None: they are not. Raises SqlError for wrong options."""
    policy = options.get(POLICY)
    if policy is None:
        return None
    if not partitions:
        raise options.error(f"{POLICY.key} is set, but the table has no partitions: declare PARTITIONED BY (...)")
    if policy != "success-file":
        raise options.error(f"{POLICY.key} must be success-file, got {policy!r}")
    if options.get(EXTRACTOR) != "default":
        raise options.error(f"{EXTRACTOR.key} must be default, got {options.get(EXTRACTOR)!r}")
    try:
        ZoneInfo(options.get(ZONE))
        if options.get(FORMATTER) is not None:
            strftime_pattern(options.get(FORMATTER))
    except (KeyError, ValueError, OSError) as error:
        raise options.error(str(error)) from None
    return PartitionCommit(
        partitions=partitions,
        by_time=options.get(TRIGGER) is _Trigger.PARTITION_TIME,
        delay_ms=options.get(DELAY),
        success_file=options.get(SUCCESS_FILE),
        zone=options.get(ZONE),
        pattern=options.get(PATTERN),
        form=options.get(FORMATTER),
    )


@stored_as("open-partition")
class OpenPartition(msgspec.Struct, frozen=True):
    """A partition that a writer has written into, its folder, and when it is due (ms)."""

    folder: str
    due_ms: int


@stored_as("partition-report")
class PartitionReport(msgspec.Struct, frozen=True):
    """A writer's time at a checkpoint (ms), a watermark or the clock's, and its open partitions."""

    subtask: int
    parallelism: int
    time_ms: int
    partitions: tuple[OpenPartition, ...]


class CommittedPartitions(Sink[Any]):
    """A sink of files whose partitions are committed."""

    def __init__(self, files: FileSink, path: str, folders: PartitionFolders, commit: PartitionCommit) -> None:
        self._files = files
        self._path = path
        self._folders = folders
        self._commit = commit

    def describe(self) -> str:
        return self._files.describe()

    def validate(self) -> None:
        self._files.validate()

    def takes_columns(self, columns: RecordColumns) -> bool:
        return self._files.takes_columns(columns)

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return self._writer(self._files.create_writer(context), context, ())

    def restore_writer(self, context: SinkContext, state: list[Any]) -> SinkWriter[Any]:
        partitions = [one for one in state if isinstance(one, OpenPartition)]
        files = self._files.restore_writer(context, [one for one in state if not isinstance(one, OpenPartition)])
        return self._writer(files, context, partitions)

    def create_committer(self) -> Committer:
        return _Committer(self._files.create_committer(), self._path, self._commit)

    def _writer(
        self, files: SinkWriter[Any], context: SinkContext, restored: Sequence[OpenPartition]
    ) -> SinkWriter[Any]:
        return _Writer(files, context, folders=self._folders, path=self._path, commit=self._commit, restored=restored)


class _Writer(SinkWriter[Any]):
    def __init__(
        self,
        files: SinkWriter[Any],
        context: SinkContext,
        *,
        folders: PartitionFolders,
        path: str,
        commit: PartitionCommit,
        restored: Sequence[OpenPartition],
    ) -> None:
        self._files = files
        self._context = context
        self._folders = folders
        self._path = path
        self._commit = commit
        self._open = {one.folder: one for one in restored}
        self._has_ended = False

    def write(self, value: Any, timestamp: int | None) -> None:
        raise NotImplementedError("a table has columns only")

    def write_columns(self, batch: Any, timestamps: Any = None) -> None:
        self._files.write_columns(batch, timestamps)
        names = list(self._commit.partitions)
        table = pyarrow.Table.from_batches([batch.select(names)]).group_by(names).aggregate([])
        now_ms = self._context.now_ms()
        context = BucketContext(None, now_ms, self._context.current_watermark())
        for values in table.to_pylist():
            folder = self._folders.get_bucket_id(values, context)
            if folder not in self._open:
                texts = dict(part.partition("=")[::2] for part in folder.split("/"))
                self._open[folder] = OpenPartition(folder, self._commit.due_ms(texts, now_ms))

    def wake_at_ms(self) -> int | None:
        return self._files.wake_at_ms()

    def on_wake(self, now_ms: int) -> None:
        self._files.on_wake(now_ms)

    def flush(self, end_of_input: bool) -> None:
        self._has_ended = self._has_ended or end_of_input
        self._files.flush(end_of_input)

    def prepare_savepoint(self) -> None:
        self._files.prepare_savepoint()

    def prepare_commit(self) -> list[Any]:
        files = self._files.prepare_commit()
        self._forget_committed()
        time_ms = self._context.current_watermark() if self._commit.by_time else self._context.now_ms()
        report = PartitionReport(
            self._context.subtask,
            self._context.parallelism,
            MAX_TIMESTAMP if self._has_ended else time_ms,
            tuple(self._open.values()),
        )
        return [*files, report]

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [*self._files.snapshot_state(checkpoint_id), *self._open.values()]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._files.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._files.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        self._files.close()

    def _forget_committed(self) -> None:
        now_ms = self._context.current_watermark() if self._commit.by_time else self._context.now_ms()
        for folder, one in list(self._open.items()):
            if one.due_ms <= now_ms and _exists(f"{self._path}/{folder}/{self._commit.success_file}"):
                del self._open[folder]


class _Committer(Committer):
    def __init__(self, files: Committer, path: str, commit: PartitionCommit) -> None:
        self._files = files
        self._path = path
        self._commit = commit

    def commit(self, committables: Sequence[Any]) -> None:
        self._files.commit([one for one in committables if not isinstance(one, PartitionReport)])
        self._commit_partitions(committables)

    def commit_again(self, committables: Sequence[Any]) -> None:
        self._files.commit_again([one for one in committables if not isinstance(one, PartitionReport)])
        self._commit_partitions(committables)

    def abort(self, committables: Sequence[Any]) -> None:
        self._files.abort([one for one in committables if not isinstance(one, PartitionReport)])

    def _commit_partitions(self, committables: Sequence[Any]) -> None:
        reports = [one for one in committables if isinstance(one, PartitionReport)]
        # Without a report of each writer it is not known how far the slowest is.
        if not reports or len({one.subtask for one in reports}) < reports[0].parallelism:
            return
        time_ms = min(one.time_ms for one in reports)
        due = [one.folder for report in reports for one in report.partitions if one.due_ms <= time_ms]
        for folder in dict.fromkeys(due):
            _touch(f"{self._path}/{folder}", self._commit.success_file)


def _exists(path: str) -> bool:
    file_system, inner = resolve(path)
    return bool(file_system.get_file_info(inner).type is fs.FileType.File)


def _touch(folder: str, name: str) -> None:
    file_system, inner = resolve(folder)
    # A folder whose rows are all in files that are not closed yet does not exist in a local file system.
    file_system.create_dir(inner, recursive=True)
    with file_system.open_output_stream(f"{inner}/{name}"):
        pass
