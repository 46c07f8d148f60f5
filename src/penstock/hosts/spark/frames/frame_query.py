"""The Spark query that computes a streaming DataFrame for a job. It starts and ends with an attempt of the job.

The query may be ahead of the job's checkpoints, never behind them; the batches in between are in files. It is ahead by
a limited number of batches: it waits before it writes one while that many have files that no reader has begun.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from pyarrow import fs

from penstock.common.errors import SourceError
from penstock.common.files.durable import is_object_store, make_directory, publish, sync, sync_parent
from penstock.common.files.file_systems import file_system_of
from penstock.common.values.decoding import from_json
from penstock.hosts.spark.driver.held_slots import HELD_SLOTS
from penstock.hosts.spark.driver.slots import max_slots
from penstock.hosts.spark.failures import cause_in
from penstock.hosts.spark.frames.exact_files import make_exact
from penstock.hosts.spark.frames.frame_copy import missing_of, usable
from penstock.hosts.spark.frames.place import for_spark
from penstock.hosts.spark.internals.query_log import last_commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


# The micro-batches of a streaming query in files. A batch is complete or does not exist, and never changes.
#
#     <folder>/query/                   the checkpoints of Spark's query: the batches it has begun, and their input
#     <folder>/rows/<number>-<writer>/  the rows of a batch, as Parquet files, which readers delete after reading
#     <folder>/batches/<number>         the marker of a batch: the paths of its files below rows/
#
# The marker makes a batch complete. Spark runs a batch without a marker again, with the same number and the same input.
# A writer that was killed may write for another moment in a JVM that has not ended yet: its files are in a directory of
# its own, which no marker names.

_DIGITS = 12
_ROWS = ".parquet"


class BatchFolder:
    """Access the micro-batches below one folder. `writer` is unique.

    All methods may wait for the file system, and raise OSError.
    """

    def __init__(self, folder: str, writer: str) -> None:
        self._folder = folder
        self._writer = writer
        self._system, self._inner = file_system_of(folder)

    @property
    def checkpoints(self) -> str:
        """Return the directory of the Spark query's checkpoints."""
        return f"{self._folder}/query"

    def rows_of(self, batch: int) -> str:
        """Return the directory to which this writer writes the rows of a batch."""
        return f"{self._folder}/rows/{self._name(batch)}"

    def complete(self) -> list[int]:
        """Return the numbers of all complete batches, in ascending order."""
        return sorted(int(name) for name in self._names_in("batches") if name.isdigit())

    def publish(self, batch: int) -> None:
        """Make a batch whose rows are written complete, unless another writer has done so."""
        if self.files_of(batch) is not None:
            return
        directory = f"{self._inner}/rows/{self._name(batch)}"
        names = sorted(name for name in self._names_in(f"rows/{self._name(batch)}") if _has_rows(name))
        for name in names:
            sync(self._system, f"{directory}/{name}")
        if names:
            sync(self._system, directory)
            sync_parent(self._system, directory)
        make_directory(self._system, f"{self._inner}/batches")
        path = self._marker(batch)
        # An object appears as a whole, under its final name. A file is renamed when it is complete.
        is_atomic = is_object_store(self._system)
        unfinished = path if is_atomic else f"{path}.{self._writer}"
        with self._system.open_output_stream(unfinished) as stream:
            stream.write(msgspec.json.encode([f"{self._name(batch)}/{name}" for name in names]))
        if not is_atomic:
            publish(self._system, unfinished, path)

    def files_of(self, batch: int) -> list[str] | None:
        """Return the paths of the files of a batch, or None if it is not complete, or was removed."""
        names = self._read_marker(batch)
        return None if names is None else [f"{self._folder}/rows/{name}" for name in names]

    def remove_read(self, before: int) -> None:
        """Remove markers and directories of the batches below `before` whose files were all deleted."""
        deleted = [batch for batch in self.complete() if batch < before and not self._has_files(batch)]
        # Keep the marker of a batch without files until a checkpoint is beyond that batch. The files of a later batch
        # that were deleted after reading show this.
        while deleted and not self._read_marker(deleted[-1]):
            deleted.pop()
        numbers = {f"{batch:0{_DIGITS}}" for batch in deleted}
        for name in self._names_in("rows") if deleted else ():
            if name.partition("-")[0] in numbers:
                self._system.delete_dir(f"{self._inner}/rows/{name}")
        for batch in deleted:
            with contextlib.suppress(FileNotFoundError):
                self._system.delete_file(self._marker(batch))

    def _read_marker(self, batch: int) -> list[str] | None:
        try:
            with self._system.open_input_stream(self._marker(batch)) as stream:
                return from_json(stream.read(), list[str])
        except FileNotFoundError:
            return None

    def _has_files(self, batch: int) -> bool:
        paths = [f"{self._inner}/rows/{name}" for name in self._read_marker(batch) or ()]
        return any(info.type is fs.FileType.File for info in self._system.get_file_info(paths))

    def _names_in(self, directory: str) -> list[str]:
        selector = fs.FileSelector(f"{self._inner}/{directory}", allow_not_found=True)
        return [info.base_name for info in self._system.get_file_info(selector)]

    def _name(self, batch: int) -> str:
        return f"{batch:0{_DIGITS}}-{self._writer}"

    def _marker(self, batch: int) -> str:
        return f"{self._inner}/batches/{batch:0{_DIGITS}}"


def _has_rows(name: str) -> bool:
    return name.endswith(_ROWS) and not name.startswith((".", "_"))


_CHECK_S = 0.5
_STOP_S = 60.0
_REMOVAL_INTERVAL = 10
"""The number of batches between two removals of batches whose files were all deleted."""
_log = logging.getLogger(__name__)
_open: list[FrameQuery] = []
"""The queries of this process that hold slots."""


class QuerySettings(msgspec.Struct, frozen=True):
    """The user's settings of a query."""

    output_mode: str
    trigger_ms: int | None
    """Minimum time between the starts of two batches; None: a batch begins when the previous one is written."""
    max_unread_batches: int


class FrameQuery:
    """Run the query of a streaming DataFrame for one attempt of a job.

    `name`: the source's name. Batches go below `folder`, each in at most `tasks` files. `keep_files`: never remove
    one.
    """

    def __init__(
        self,
        frame: DataFrame | None,
        name: str,
        settings: QuerySettings,
        *,
        folder: str,
        tasks: int,
        keep_files: bool,
    ) -> None:
        self.folder = folder
        self._frame = frame
        self._name = name
        self._settings = settings
        self._tasks = tasks
        self._keep_files = keep_files
        self._batches: BatchFolder | None = None
        self._id = uuid.uuid4().hex[:12]
        """Identifies the holder of the slots, and the writer of the batches."""
        self._start_or_stop = threading.Lock()
        """Held while the query is started, and while it is stopped."""
        self._changed = threading.Condition()
        """Guards all attributes below."""
        self._newest = -1
        """The last complete batch."""
        self._first_unread = 0
        self._is_stopping = False
        self._is_stopped = threading.Event()
        self._query: StreamingQuery | None = None
        self._error: Exception | None = None
        """The reason why a batch was not written."""

    # The enumerator's side.

    def start(self, next_batch: int = 0, unread: Sequence[str] = ()) -> None:
        """Start the query, or continue it from its checkpoints.

        `next_batch`: the job has received all batches before this one. `unread`: files of these batches that are not
        assigned to a reader. Waits until queries of this process that are being stopped have ended: one of them may be
        this query in the previous attempt. Raises SourceError if Spark cannot compute the frame, if files that the job
        needs were deleted, and if the session has too few slots.
        """
        for other in [*_open]:
            if other._is_stopping and not other._is_stopped.wait(_STOP_S):
                raise SourceError(
                    f"the query of the DataFrame '{other._name}' in the previous attempt has not ended within "
                    f"{_STOP_S:g} s"
                )
        with self._start_or_stop:
            if self._is_stopping:
                return
            self._batches = BatchFolder(self.folder, self._id)
            self._newest = self._newest_of(self._batches, next_batch, unread)
            frame = usable(self._frame, self._name)
            self._hold_slots(frame)
            _open.append(self)
            self._query = self._begin(frame)
        _log.info(
            "Spark writes the streaming DataFrame '%s' to %s, after batch %d", self._name, self.folder, self._newest
        )

    def wait_for_files(self, batch: int) -> list[str] | None:
        """Wait until a batch is complete, and return its files, or None if the query is being stopped.

        Raises SourceError if the query has ended, or if the batch was deleted.
        """
        while not self._waits_for(batch):
            if self._is_stopping:
                return None
            self._check_runs()
        assert self._batches is not None
        if not self._keep_files and batch % _REMOVAL_INTERVAL == 0:
            # A failure must not fail the job: a later call removes the remaining batches.
            with contextlib.suppress(OSError):
                self._batches.remove_read(before=self._first_unread)
        files = self._batches.files_of(batch)
        if files is None:
            raise SourceError(missing_text(f"batch {batch} in {self.folder}"))
        return files

    def set_first_unread(self, batch: int) -> None:
        """Note that readers have got all batches before this one, so that the query may write further ones."""
        with self._changed:
            self._first_unread = batch
            self._changed.notify_all()

    def stop(self) -> None:
        """Stop the query, on another thread."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        threading.Thread(target=self._end, name="penstock-frame-query-end", daemon=True).start()

    def _newest_of(self, batches: BatchFolder, next_batch: int, unread: Sequence[str]) -> int:
        """Return the last complete batch.

        Raises SourceError if a batch from `next_batch` on is missing: Spark does not compute a committed batch again.
        """
        newest = max(batches.complete(), default=-1)
        needed = [*unread]
        for batch in range(next_batch, max(newest, last_commit(batches.checkpoints)) + 1):
            files = batches.files_of(batch)
            if files is None:
                raise SourceError(missing_text(f"batch {batch} in {self.folder}"))
            needed += files
        missing = missing_of(needed)
        if missing:
            raise SourceError(missing_text(missing[0]))
        return newest

    def _waits_for(self, batch: int) -> bool:
        with self._changed:
            if self._newest < batch and not self._is_stopping:
                self._changed.wait(_CHECK_S)
            return self._newest >= batch and not self._is_stopping

    def _check_runs(self) -> None:
        query = self._query
        assert query is not None
        try:
            if query.isActive or self._is_stopping:
                return
            error = self._error or query.exception()
        except Exception as lost:
            error = SourceError(f"the connection to Spark's JVM was lost: {lost}")
        reason = "was stopped from outside the job" if error is None else f"has failed: {cause_in(str(error))}"
        raise SourceError(f"the query of the streaming DataFrame '{self._name}' {reason}") from error

    def _hold_slots(self, frame: DataFrame) -> None:
        with HELD_SLOTS.lock:
            HELD_SLOTS.hold(self._id, f"query of {self._name}", self._tasks)
            available, needed = max_slots(frame.sparkSession), HELD_SLOTS.total
            if available is None or needed <= available:
                return
            HELD_SLOTS.release(self._id)
        # Not NotEnoughSlotsError, after which a job waits for slots: this session never gets more.
        raise SourceError(
            f"the query of the streaming DataFrame '{self._name}' needs {self._tasks} slots in addition to the job's "
            f"slots, {needed} in total, and Spark has {available}: start the session with more, as with "
            f"env.get_spark_session(slots={needed}), or lower the parallelism"
        )

    def _begin(self, frame: DataFrame) -> StreamingQuery:
        assert self._batches is not None
        try:
            writer = frame.writeStream.foreachBatch(self._write).outputMode(self._settings.output_mode)
            # Names are unique in a session.
            writer = writer.queryName(f"{self._name} ({self._id})")
            writer = writer.option("checkpointLocation", for_spark(self._batches.checkpoints))
            if self._settings.trigger_ms is not None:
                writer = writer.trigger(processingTime=f"{self._settings.trigger_ms} milliseconds")
            return writer.start()
        except Exception as error:
            reason = cause_in(str(error))
            raise SourceError(f"Spark cannot compute the streaming DataFrame '{self._name}': {reason}") from error

    def _end(self) -> None:
        with self._start_or_stop:
            # The JVM may have ended, and the query with it.
            with contextlib.suppress(Exception):
                if self._query is not None:
                    self._query.stop()
            HELD_SLOTS.release(self._id)
            if self in _open:
                _open.remove(self)
            self._is_stopped.set()

    # The query's side: a thread of the Spark query calls `_write` for each batch.

    def _write(self, rows: DataFrame, batch: int) -> None:
        try:
            self._write_once(rows, batch)
        except Exception as error:
            self._error = error
            raise

    def _write_once(self, rows: DataFrame, batch: int) -> None:
        assert self._batches is not None
        if batch <= self._newest:
            # The batch is complete, and readers may have read from it, but Spark was killed before it committed it.
            # Compute it without output: Spark checks that a stateful query has updated its state.
            rows.write.format("noop").mode("overwrite").save()
            return
        with self._changed:
            while self._newest + 1 - self._first_unread >= self._settings.max_unread_batches:
                if self._is_stopping:
                    break
                self._changed.wait()
            if self._is_stopping:
                # Spark must not commit a batch that was not written.
                raise SourceError("the job has ended")
        make_exact(rows.sparkSession)
        rows.coalesce(self._tasks).write.mode("overwrite").parquet(for_spark(self._batches.rows_of(batch)))
        self._batches.publish(batch)
        with self._changed:
            self._newest = batch
            self._changed.notify_all()


def missing_text(what: str) -> str:
    """Return the message for a batch or a file that a job needs and that does not exist."""
    return (
        f"{what} is missing: it has rows of a streaming DataFrame that a later checkpoint of the job contains as read. "
        "Such rows are deleted, unless the source is a StreamingDataFrameSource(frame, keep_files=True): start from "
        "the newest checkpoint or savepoint, or without one"
    )
