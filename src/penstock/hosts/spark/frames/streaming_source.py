"""StreamingDataFrameSource: the rows of a streaming DataFrame as an unbounded stream."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source
from penstock.common.stored import stored_as
from penstock.common.typeinfo import RowTypeInfo
from penstock.common.types import Row
from penstock.connectors.base.split_enumerator import SharedSplitEnumerator
from penstock.connectors.files.formats.format import FileFormat
from penstock.hosts.spark.frames.batch_files import BatchFile, BatchFileReader
from penstock.hosts.spark.frames.folders import new_folder
from penstock.hosts.spark.frames.frame_query import FrameQuery, QuerySettings
from penstock.hosts.spark.frames.source import check_frame, checked_row_type, format_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.common.columns.record_columns import RecordColumns


@stored_as("frame-batches")
class FrameBatchesState(msgspec.Struct, frozen=True):
    """The state of the enumerator in a checkpoint."""

    folder: str
    """The folder of the micro-batches."""
    next_batch: int
    """The first batch that is not yet split into files."""
    pending: list[BatchFile]
    """Files not yet assigned."""


class StreamingFrameEnumerator(SharedSplitEnumerator):
    """Start the query that computes a streaming DataFrame, and assign the files of its batches in order."""

    def __init__(self, context: EnumeratorContext, query: FrameQuery, state: FrameBatchesState | None = None) -> None:
        super().__init__(context, more_to_come=True, restored=state is not None)
        self._query = query
        self._next_batch = 0
        if state is not None:
            self._next_batch = state.next_batch
            self.add_splits(state.pending)
            query.set_first_unread(self._first_unread)

    def start(self) -> None:
        """Start the query, on another thread. Raises SourceError from there if Spark cannot compute the frame."""
        next_batch, unread = self._next_batch, [file.path for file in self.pending()]
        self._context.call_async(lambda: self._query.start(next_batch, unread), self._started)

    def handle_split_request(self, subtask: int) -> None:
        """Assign the next file. The query continues if it has waited for that."""
        super().handle_split_request(subtask)
        self._query.set_first_unread(self._first_unread)

    def add_splits_back(self, splits: Sequence[BatchFile], subtask: int) -> None:
        """Insert files at the front of the queue."""
        super().add_splits_back(splits, subtask)
        self._query.set_first_unread(self._first_unread)

    def snapshot_state(self) -> FrameBatchesState:
        """Return the state with which a restored enumerator continues after the assigned files."""
        return FrameBatchesState(self._query.folder, self._next_batch, self.pending())

    def close(self) -> None:
        """Stop the query."""
        self._query.stop()

    @property
    def _first_unread(self) -> int:
        return min((file.batch for file in self.pending()), default=self._next_batch)

    def _started(self, _: None, error: Exception | None) -> None:
        if error is not None:
            raise error
        self._wait_for_next()

    def _wait_for_next(self) -> None:
        batch = self._next_batch
        self._context.call_async(lambda: self._query.wait_for_files(batch), self._arrived)

    def _arrived(self, files: list[str] | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        if files is None:
            return
        self._next_batch += 1
        self.add_splits(BatchFile(path, self._next_batch - 1) for path in files)
        self._query.set_first_unread(self._first_unread)
        self._wait_for_next()


_OUTPUT_MODES = ("append", "update")


class StreamingDataFrameSource(Source[Row]):
    """Read the rows of a streaming DataFrame, each once, as Rows with the names and types of its columns.

    A Spark query computes the frame while the job runs, in the frame's session, and writes micro-batches as Parquet
    files, below `directory` or in a temporary folder; the subtasks read these files. Checkpoints contain the positions
    in the files, and the query has its own checkpoints in the same folder: a restored job continues with both. A file
    is deleted after a completed checkpoint contains it as read. `name` is part of the folder's name.

    `max_unread_batches`: the query waits while so many batches have files that no subtask has begun. `trigger_ms`:
    minimum time between the starts of two batches, in milliseconds; None: a batch begins when the previous one is
    written. `output_mode`: "append", or "update" for an aggregation, which emits each changed row. `keep_files`: never
    delete a file, so that a job can start from any older savepoint.

    The query needs as many slots as the source has subtasks, in addition to the job's slots. Raises TypeError for an
    object that is not a DataFrame; ProgramError for a batch DataFrame, for a column whose type a stream does not have,
    and on a cluster without a `directory`; ValueError for limits below 1 or an unknown mode. Not in Flink.
    """

    def __init__(
        self,
        frame: DataFrame,
        directory: str | None = None,
        name: str = "frame",
        *,
        max_unread_batches: int = 2,
        trigger_ms: int | None = None,
        output_mode: str = "append",
        keep_files: bool = False,
    ) -> None:
        check_frame(frame, streaming=True)
        for setting, value in (("max_unread_batches", max_unread_batches), ("trigger_ms", trigger_ms)):
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"StreamingDataFrameSource: {setting} must be 1 or more, got {value!r}")
        if output_mode not in _OUTPUT_MODES:
            raise ValueError(f"StreamingDataFrameSource: output_mode must be append or update, got {output_mode!r}")
        self._describes = f"{len(frame.columns)} columns of a streaming DataFrame"
        self._row_type = checked_row_type(frame)
        self._format: FileFormat[Any] = format_of(self._row_type)
        self._frame: DataFrame | None = frame
        self._name = name
        self._settings = QuerySettings(output_mode, trigger_ms, max_unread_batches)
        self._keeps = keep_files
        self._folder = new_folder(self, frame.sparkSession, name, directory)

    def describe(self) -> str:
        return self._describes

    def get_boundedness(self) -> Boundedness:
        """CONTINUOUS_UNBOUNDED."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> StreamingFrameEnumerator:
        """Create an enumerator with a new query, which starts where the frame defines."""
        # A folder of its own: files that another job has read do not concern this one.
        return StreamingFrameEnumerator(context, self._query(f"{self._folder}/{uuid.uuid4().hex[:12]}", context))

    def restore_enumerator(self, context: EnumeratorContext, state: FrameBatchesState) -> StreamingFrameEnumerator:
        """Create an enumerator that continues with the batches and the query of the restored checkpoint."""
        return StreamingFrameEnumerator(context, self._query(state.folder, context), state)

    def create_reader(self, context: ReaderContext) -> BatchFileReader:
        """Create the reader of one subtask."""
        return BatchFileReader(context, self._format, self._keeps)

    def get_produced_type(self) -> RowTypeInfo:
        """Return the type of the rows."""
        return self._row_type

    def on_columns(self, columns: RecordColumns) -> StreamingDataFrameSource:
        """Return a source of batches, from the same files."""
        of_columns = copy(self)
        format_of_columns = self._format.on_columns(columns)
        assert format_of_columns is not None
        of_columns._format = format_of_columns
        return of_columns

    def _query(self, folder: str, context: EnumeratorContext) -> FrameQuery:
        return FrameQuery(
            self._frame,
            self._name,
            self._settings,
            folder=folder,
            tasks=context.parallelism,
            keep_files=self._keeps,
        )

    def __getstate__(self) -> dict[str, Any]:
        # The frame cannot be pickled, and workers do not need it.
        return vars(self) | {"_frame": None}
