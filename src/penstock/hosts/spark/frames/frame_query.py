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

from penstock.common.errors import SourceError
from penstock.hosts.spark.driver.held_slots import HELD_SLOTS
from penstock.hosts.spark.driver.slots import max_slots
from penstock.hosts.spark.failures import cause_in
from penstock.hosts.spark.frames.batch_folder import BatchFolder, missing_text
from penstock.hosts.spark.frames.exact_files import make_exact
from penstock.hosts.spark.frames.folders import for_spark
from penstock.hosts.spark.frames.frame_copy import missing_of, usable
from penstock.hosts.spark.internals.query_log import last_commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

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
