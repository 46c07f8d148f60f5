"""StreamingDataFrameSource: the rows of a streaming DataFrame as an unbounded stream."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source
from penstock.common.stored import stored_as
from penstock.common.typeinfo import RowTypeInfo
from penstock.common.types import Row
from penstock.connectors.base.split_enumerator import SharedSplitEnumerator
from penstock.hosts.spark.frames.batch_files import BatchFile, BatchFileReader
from penstock.hosts.spark.frames.frame_query import FrameQuery, QuerySettings
from penstock.hosts.spark.frames.place import new_folder
from penstock.hosts.spark.frames.source import check_frame, row_format_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Splits of the micro-batches in which Spark computes a streaming DataFrame.


@stored_as("frame-batches")
class FrameBatchesState(msgspec.Struct, frozen=True):
    """The folder of the batches, the first batch that no split is of, and the splits not yet assigned."""

    folder: str
    next_batch: int
    pending: list[BatchFile]


class StreamingFrameEnumerator(SharedSplitEnumerator):
    """Starts the query, and assigns the files of its batches in their order."""

    def __init__(self, context: EnumeratorContext, query: FrameQuery, state: FrameBatchesState | None = None) -> None:
        super().__init__(context, more_to_come=True, restored=state is not None)
        self._query = query
        self._next_batch = 0
        if state is not None:
            self._next_batch = state.next_batch
            self.add_splits(state.pending)
            query.read_until(self._first_unread)

    def start(self) -> None:
        """Start the query, on another thread. Raises SourceError from there if the frame can't be computed."""
        next_batch, unread = self._next_batch, [file.path for file in self.pending()]
        self._context.call_async(lambda: self._query.start(next_batch, unread), self._started)

    def handle_split_request(self, subtask: int) -> None:
        """Assign the next file, and let the query go on if it waits for that."""
        super().handle_split_request(subtask)
        self._query.read_until(self._first_unread)

    def add_splits_back(self, splits: Sequence[BatchFile], subtask: int) -> None:
        """Put files first in the queue."""
        super().add_splits_back(splits, subtask)
        self._query.read_until(self._first_unread)

    def snapshot_state(self) -> FrameBatchesState:
        """Return what is needed to go on with the batches that readers do not have yet."""
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
        self._context.call_async(lambda: self._query.files_of(batch), self._arrived)

    def _arrived(self, files: list[str] | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        if files is None:
            return
        self._next_batch += 1
        self.add_splits(BatchFile(path, self._next_batch - 1) for path in files)
        self._query.read_until(self._first_unread)
        self._wait_for_next()


_OUTPUT_MODES = ("append", "update")


class StreamingDataFrameSource(Source[Row]):
    """Reads the rows of a streaming DataFrame, each once, as Rows with the names and types of its columns.

    A query of Spark's computes the frame while the job runs, in its session, and writes its micro-batches as Parquet
    files, below `directory` or in a temporary folder; the subtasks read these. Checkpoints have the position in the
    files. The query's own checkpoints lie beside them: a job that is restored goes on with both. A file is deleted when
    a completed checkpoint has it as read. `name` is that of the folder.

    `max_unread_batches`: the query waits while so many batches have files that no subtask has begun. `trigger_ms`:
    least time between the starts of two batches in milliseconds; None: a batch begins when the one before is written.
    `output_mode`: "append", or "update" for an aggregation that gives each changed row. `keep_files`: nothing is
    deleted, so that each older savepoint can be started from.

    The query needs as many slots as the source has subtasks, beside those of the job. Raises TypeError for anything
    but a DataFrame, ProgramError for a batch one, for a column whose type a stream does not have, and on a cluster
    without a `directory`; ValueError for limits below 1 or an unknown mode. Not in Flink.
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
        self._format = row_format_of(frame)
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
        """Create an enumerator with a new query, which begins where the frame says."""
        # Of its own: a job that begins anew has nothing to do with what another one has read.
        return StreamingFrameEnumerator(context, self._query(f"{self._folder}/{uuid.uuid4().hex[:12]}", context))

    def restore_enumerator(self, context: EnumeratorContext, state: FrameBatchesState) -> StreamingFrameEnumerator:
        """Create one that goes on with the batches and the query of then."""
        return StreamingFrameEnumerator(context, self._query(state.folder, context), state)

    def create_reader(self, context: ReaderContext) -> BatchFileReader:
        """Create the reader of one subtask."""
        return BatchFileReader(context, self._format, self._keeps)

    def get_produced_type(self) -> RowTypeInfo:
        """The type of the rows."""
        return self._format.row_type

    def _query(self, folder: str, context: EnumeratorContext) -> FrameQuery:
        return FrameQuery(self._frame, self._name, self._settings, folder, context.parallelism, self._keeps)

    def __getstate__(self) -> dict[str, Any]:
        # Workers have no use for the frame, and can't have it.
        return vars(self) | {"_frame": None}
