"""DataFrameSource: the rows of a batch DataFrame as a bounded stream."""

from __future__ import annotations

import re
from copy import copy
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source
from penstock.common.errors import ProgramError, SourceError
from penstock.common.typeinfo import RowTypeInfo
from penstock.common.types import Row
from penstock.connectors.base.split_enumerator import OwnedSplitEnumerator
from penstock.connectors.files.formats.format import FileFormat
from penstock.connectors.files.formats.parquet_format import ParquetFormat
from penstock.connectors.files.source.enumerator import FileEnumerator, FileEnumeratorState
from penstock.connectors.files.source.listing import list_files
from penstock.connectors.files.source.reader import FileSourceReader
from penstock.connectors.files.split import DEFAULT_SPLIT_BYTES, FileSplit, FoundFile, whole
from penstock.hosts.spark.frames.column_types import row_type_of
from penstock.hosts.spark.frames.frame_copy import FrameCopy, missing_of
from penstock.hosts.spark.internals.query_plans import is_deterministic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.common.columns.record_columns import RecordColumns
    from penstock.hosts.spark.frames.part_frame import PartFrame

_PARTITION = re.compile(r"part-(\d+)-[^/]*$")


class DataFrameEnumerator(FileEnumerator):
    """Copy the frame to files at the start, and assign splits of them. A restored enumerator uses the files it had."""

    def __init__(
        self,
        context: EnumeratorContext,
        frame_copy: FrameCopy,
        file_format: FileFormat,
        state: FileEnumeratorState | None = None,
    ) -> None:
        super().__init__(
            context,
            paths=(),
            file_format=file_format,
            split_bytes=DEFAULT_SPLIT_BYTES,
            discovery_interval_ms=None,
            state=state,
        )
        self._copy = frame_copy
        self._is_restored = state is not None

    def start(self) -> None:
        """Compute the frame, or after a restore check that its files exist. Does so on another thread."""
        if self._is_restored:
            files = sorted(self.found)
            self._context.call_async(lambda: missing_of(files), self._check_missing)
        else:
            super().start()

    def find(self) -> list[FoundFile]:
        """Return the files of the copy."""
        return list_files([self._copy.make(self)])

    def snapshot_state(self) -> FileEnumeratorState:
        """Return the splits not yet assigned, and all files: a restored job also needs those of its readers."""
        return msgspec.structs.replace(super().snapshot_state(), seen=frozenset(self.found))

    def close(self) -> None:
        """Cancel the computation of the frame."""
        self._copy.cancel(self)

    def _check_missing(self, missing: list[str] | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        if missing:
            raise SourceError(
                f"{missing[0]} is missing: a file of the copy of the DataFrame that the job reads. It was deleted, or "
                "it was in a temporary folder of a process that has ended. from_data_frame(frame, directory=...) keeps "
                "copies in that directory; to start from the beginning, start the job without the savepoint or "
                "checkpoint"
            )


class PartitionsEnumerator(OwnedSplitEnumerator):
    """Copy the frame to files at the start, and assign the files of partition i to subtask i, in order.

    For jobs without snapshots.
    """

    def __init__(self, context: EnumeratorContext, frame_copy: FrameCopy) -> None:
        super().__init__(context, ())
        self._copy = frame_copy
        self._is_listed = False

    def start(self) -> None:
        """Compute the frame, on another thread."""
        self._context.call_async(lambda: list_files([self._copy.make(self)]), self._listed)

    def owner_of(self, split: FileSplit) -> int:
        """Return the number of the partition, which Spark writes into the names of files."""
        found = _PARTITION.search(split.path)
        assert found is not None, f"{split.path} is not a file of Spark's"
        return int(found.group(1)) % self._context.parallelism

    def more_to_come(self) -> bool:
        """Return whether the files are not there yet."""
        return not self._is_listed

    def snapshot_state(self) -> Any:
        """Raise AssertionError: no job in BATCH mode has snapshots."""
        raise AssertionError("partitions of a frame are read in BATCH mode, without snapshots")

    def close(self) -> None:
        """Cancel the computation of the frame."""
        self._copy.cancel(self)

    def _listed(self, files: list[FoundFile] | None, error: Exception | None) -> None:
        if files is None:
            assert error is not None
            raise error
        self._is_listed = True
        self.add_splits(map(whole, files))
        self.signal_no_more_splits()


class DataFrameSource(Source[Row]):
    """Read the rows of a batch DataFrame, each once, as Rows with the names and types of its columns.

    Spark computes the frame when the first job that reads it starts: executors write it to Parquet files, below
    `directory` or in a temporary folder. The job reads the files in parallel, and continues from its positions after a
    failure. Files below `directory` stay: a job that starts from a savepoint, or in another process from a checkpoint,
    needs them. `name` is part of the name of their folder.

    Raises TypeError for an object that is not a DataFrame, and ProgramError for a streaming DataFrame, for a column
    whose type a stream does not have, and on a cluster without a `directory`. Not in Flink, whose tables are another
    API.
    """

    def __init__(self, frame: DataFrame, directory: str | None = None, name: str = "frame") -> None:
        check_frame(frame, streaming=False)
        self.directory = directory
        self._describes = f"{len(frame.columns)} columns of a DataFrame"
        self._row_type = checked_row_type(frame)
        self._format: FileFormat[Any] = format_of(self._row_type)
        self._copy = FrameCopy(frame, name, directory)

    @property
    def frame(self) -> DataFrame | None:
        """The DataFrame; None in another process than the one that has made it."""
        return self._copy.frame

    def describe(self) -> str:
        return self._describes

    def get_boundedness(self) -> Boundedness:
        """BOUNDED."""
        return Boundedness.BOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> DataFrameEnumerator:
        """Create an enumerator, whose start computes the frame if that has not been done."""
        return DataFrameEnumerator(context, self._copy, self._format)

    def restore_enumerator(self, context: EnumeratorContext, state: FileEnumeratorState) -> DataFrameEnumerator:
        """Create an enumerator that continues with the files of the restored checkpoint."""
        return DataFrameEnumerator(context, self._copy, self._format, state)

    def create_reader(self, context: ReaderContext) -> FileSourceReader[Row]:
        """Create the reader of one subtask."""
        return FileSourceReader(context, self._format)

    def get_produced_type(self) -> RowTypeInfo:
        """Return the type of the rows."""
        return self._row_type

    def on_columns(self, columns: RecordColumns) -> DataFrameSource:
        """Return a source of batches, from the same files."""
        of_columns = copy(self)
        format_of_columns = self._format.on_columns(columns)
        assert format_of_columns is not None
        of_columns._format = format_of_columns
        return of_columns


class PartSource(DataFrameSource):
    """Read the DataFrame of a part of a program."""

    def __init__(self, part: PartFrame, directory: str | None, name: str) -> None:
        super().__init__(part.frame, directory, name)
        self._copy.part = part


class PartitionsSource(PartSource):
    """Read a DataFrame as its partitions: subtask i emits the rows of partition i in their order.

    For jobs without snapshots, with as many subtasks as the frame has partitions.
    """

    def create_enumerator(self, context: EnumeratorContext) -> PartitionsEnumerator:  # type: ignore[override]
        """Create an enumerator, whose start computes the frame."""
        return PartitionsEnumerator(context, self._copy)


def check_frame(frame: Any, *, streaming: bool) -> None:
    """Raise TypeError or ProgramError unless `frame` is a DataFrame of a session in this process, of the right kind."""
    from pyspark.sql import DataFrame
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    if not isinstance(frame, DataFrame):
        raise TypeError(f"expected a DataFrame of Spark, got {frame!r:.200}")
    if not isinstance(frame, ClassicDataFrame):
        raise ProgramError(
            "the DataFrame belongs to Spark Connect: penstock's jobs run in Spark's driver, and need a DataFrame of a "
            "session in that process, made without .remote(...)"
        )
    if frame.isStreaming and not streaming:
        raise ProgramError(
            "expected a batch DataFrame, got a streaming one: use StreamingDataFrameSource or from_data_frame"
        )
    if streaming and not frame.isStreaming:
        raise ProgramError("expected a streaming DataFrame, got a batch one: use DataFrameSource or from_data_frame")


def reason_to_copy(frame: DataFrame) -> str | None:
    """Return why a stream of this frame has to be read by operators, from its copy; None if it is the same anywhere."""
    if not is_deterministic(frame):
        return "its rows differ when they are computed again"
    collated = [field.name for field in frame.schema.fields if "collate" in field.dataType.simpleString()]
    return f"the texts of {collated[0]!r} have a collation" if collated else None


def format_of(row_type: RowTypeInfo) -> FileFormat[Row]:
    """Return the format of files that Spark has written of a frame with rows of this type."""
    return ParquetFormat(row_type, as_row=True)


def checked_row_type(frame: DataFrame) -> RowTypeInfo:
    """Return the type of a frame's rows. Raises ProgramError for a column whose type a stream does not have."""
    try:
        return row_type_of(frame.schema)
    except ProgramError as error:
        raise ProgramError(f"the DataFrame cannot be read as a stream: {error}") from None
