"""DataFrameSource: the rows of a batch DataFrame as a bounded stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source
from penstock.common.errors import ProgramError, SourceError
from penstock.common.typeinfo import RowTypeInfo
from penstock.common.types import Row
from penstock.connectors.files.formats.format import FileFormat
from penstock.connectors.files.formats.parquet_format import ParquetFormat
from penstock.connectors.files.source.enumerator import FileEnumerator, FileEnumeratorState
from penstock.connectors.files.source.listing import list_files
from penstock.connectors.files.source.reader import FileSourceReader
from penstock.connectors.files.split import DEFAULT_SPLIT_BYTES, FoundFile
from penstock.hosts.spark.frames.column_types import row_maker, row_type_of
from penstock.hosts.spark.frames.frame_copy import FrameCopy, missing_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Splits of the files to which a DataFrame was written.


class DataFrameEnumerator(FileEnumerator):
    """Has the frame computed when it starts. One that is restored goes on with the files of then, whatever they are."""

    def __init__(
        self,
        context: EnumeratorContext,
        copy: FrameCopy,
        file_format: FileFormat,
        state: FileEnumeratorState | None = None,
    ) -> None:
        super().__init__(context, (), file_format, DEFAULT_SPLIT_BYTES, None, state)
        self._copy = copy
        self._is_restored = state is not None

    def start(self) -> None:
        """Compute the frame, on another thread; or look whether its files are there still."""
        if self._is_restored:
            files = sorted(self.found)
            self._context.call_async(lambda: missing_of(files), self._looked)
        else:
            super().start()

    def find(self) -> list[FoundFile]:
        """The files of the copy."""
        return list_files([self._copy.make(self)])

    def snapshot_state(self) -> FileEnumeratorState:
        """Return the splits not yet assigned, and all files: a job that is restored needs those of its readers, too."""
        return msgspec.structs.replace(super().snapshot_state(), seen=frozenset(self.found))

    def close(self) -> None:
        """End the computation, if it is under way."""
        self._copy.cancel(self)

    def _looked(self, missing: list[str] | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        if missing:
            raise SourceError(
                f"{missing[0]} is missing: a file of the copy of the DataFrame with which the job began. It was "
                "deleted, or it was temporary and is gone with its process. A copy stays where from_data_frame(frame, "
                "directory=...) says; to begin anew, start the job without the savepoint or checkpoint"
            )


class DataFrameSource(Source[Row]):
    """Reads the rows of a batch DataFrame, each once, as Rows with the names and types of its columns.

    The frame is computed when the first job that reads it starts: executors write it to Parquet files, below
    `directory` or in a temporary folder, and the job reads these in parallel, after a failure from its positions on.
    Files below `directory` stay; a job that is to start from a savepoint, or in another process from a checkpoint,
    needs them. `name` is that of their folder.

    Raises TypeError for anything but a DataFrame, ProgramError for a streaming one, for a column whose type a stream
    does not have, and on a cluster without a `directory`. Not in Flink, whose tables are another API.
    """

    def __init__(self, frame: DataFrame, directory: str | None = None, name: str = "frame") -> None:
        check_frame(frame, streaming=False)
        self._describes = f"{len(frame.columns)} columns of a DataFrame"
        self._format = row_format_of(frame)
        self._copy = FrameCopy(frame, name, directory)

    def describe(self) -> str:
        return self._describes

    def get_boundedness(self) -> Boundedness:
        """BOUNDED."""
        return Boundedness.BOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> DataFrameEnumerator:
        """Create an enumerator, which has the frame computed when it starts, unless it was."""
        return DataFrameEnumerator(context, self._copy, self._format)

    def restore_enumerator(self, context: EnumeratorContext, state: FileEnumeratorState) -> DataFrameEnumerator:
        """Create one that goes on with the files that were written then."""
        return DataFrameEnumerator(context, self._copy, self._format, state)

    def create_reader(self, context: ReaderContext) -> FileSourceReader[Row]:
        """Create the reader of one subtask."""
        return FileSourceReader(context, self._format)

    def get_produced_type(self) -> RowTypeInfo:
        """The type of the rows."""
        return self._format.row_type


class RowFormat(ParquetFormat):
    """Files that Spark has written, read as Rows of a type."""

    def __init__(self, row_type: RowTypeInfo) -> None:
        super().__init__(as_row=True)
        self.row_type = row_type

    def maker(self, columns: Sequence[str]) -> Callable[[Any], Any]:
        return row_maker(self.row_type)


def check_frame(frame: Any, *, streaming: bool) -> None:
    """Raise TypeError or ProgramError for anything but a frame of the driver, batch or streaming as is said."""
    from pyspark.sql import DataFrame
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    if not isinstance(frame, DataFrame):
        raise TypeError(f"expected a DataFrame of Spark, got {frame!r:.200}")
    if not isinstance(frame, ClassicDataFrame):
        raise ProgramError(
            "the DataFrame is one of Spark Connect: penstock's jobs run in Spark's own driver, and need a DataFrame of "
            "a session that is there, made without .remote(...)"
        )
    if frame.isStreaming and not streaming:
        raise ProgramError("the DataFrame is a streaming one: StreamingDataFrameSource, or from_data_frame, reads it")
    if streaming and not frame.isStreaming:
        raise ProgramError("the DataFrame is a batch one: DataFrameSource, or from_data_frame, reads it")


def row_format_of(frame: DataFrame) -> RowFormat:
    """The files of a frame. Raises ProgramError for a column whose type a stream does not have."""
    try:
        return RowFormat(row_type_of(frame.schema))
    except ProgramError as error:
        raise ProgramError(f"the DataFrame can't become a stream: {error}") from None
