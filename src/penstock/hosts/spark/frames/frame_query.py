"""The query of Spark's that computes a streaming DataFrame for a job: it starts and ends with an attempt of the job.

It may be ahead of the job's checkpoints, never behind them: what is between the two is in files (batches.py). How far
ahead is bounded: the query waits before it writes a batch while too many are there that no reader has begun.
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
from penstock.hosts.spark.driver.held_slots import HELD
from penstock.hosts.spark.driver.slots import slots_at_most
from penstock.hosts.spark.failures import cause_in
from penstock.hosts.spark.frames.exact_files import make_exact
from penstock.hosts.spark.frames.frame_copy import missing_of, usable
from penstock.hosts.spark.frames.place import for_spark
from penstock.hosts.spark.internals.query_log import last_commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


# The micro-batches of a streaming query in files: each is there as a whole, or not at all, and is never written again.
#
#     <folder>/query/                   the checkpoints of Spark's query: which batches it has begun, and with what
#     <folder>/rows/<number>-<writer>/  the rows of a batch, as Parquet files. Readers delete those that they have read
#     <folder>/batches/<number>         the paths of these files below rows/. What it names is complete
#
# The file with the paths makes a batch the job's. A batch without it was not finished: Spark runs it again under the
# same number and with the same input. A writer that was killed may go on for a moment in a JVM that has not ended yet:
# what it writes is in a directory of its own, which nothing names.

_DIGITS = 12
_ROWS = ".parquet"


class Batches:
    """Those below one folder. `writer` is unique. All methods may wait for its file system, and raise OSError."""

    def __init__(self, folder: str, writer: str) -> None:
        self._folder = folder
        self._writer = writer
        self._system, self._inner = file_system_of(folder)

    @property
    def checkpoints(self) -> str:
        """Where the query keeps its own checkpoints."""
        return f"{self._folder}/query"

    def rows_of(self, batch: int) -> str:
        """The directory for the rows of a batch that are written now."""
        return f"{self._folder}/rows/{self._name(batch)}"

    def complete(self) -> list[int]:
        """The numbers of all batches that are complete, in order."""
        return sorted(int(name) for name in self._names_in("batches") if name.isdigit())

    def publish(self, batch: int) -> None:
        """The rows of a batch are written: have it complete, unless another writer was first."""
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
        whole_by_name = is_object_store(self._system)
        unfinished = path if whole_by_name else f"{path}.{self._writer}"
        with self._system.open_output_stream(unfinished) as stream:
            stream.write(msgspec.json.encode([f"{self._name(batch)}/{name}" for name in names]))
        if not whole_by_name:
            publish(self._system, unfinished, path)

    def files_of(self, batch: int) -> list[str] | None:
        """The paths of the files of a complete batch; None: it is not, or it was removed."""
        names = self._named(batch)
        return None if names is None else [f"{self._folder}/rows/{name}" for name in names]

    def remove_read(self, before: int) -> None:
        """Remove what is left of the batches below `before` whose files were all deleted."""
        gone = [batch for batch in self.complete() if batch < before and not self._has_files(batch)]
        # A batch that never had files is needed, if only as a number, until a checkpoint has it behind it: one that has
        # a later batch as read, whose files were deleted.
        while gone and not self._named(gone[-1]):
            gone.pop()
        numbers = {f"{batch:0{_DIGITS}}" for batch in gone}
        for name in self._names_in("rows") if gone else ():
            if name.partition("-")[0] in numbers:
                self._system.delete_dir(f"{self._inner}/rows/{name}")
        for batch in gone:
            with contextlib.suppress(FileNotFoundError):
                self._system.delete_file(self._marker(batch))

    def _named(self, batch: int) -> list[str] | None:
        try:
            with self._system.open_input_stream(self._marker(batch)) as stream:
                return from_json(stream.read(), list[str])
        except FileNotFoundError:
            return None

    def _has_files(self, batch: int) -> bool:
        paths = [f"{self._inner}/rows/{name}" for name in self._named(batch) or ()]
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
_REMOVED_EVERY = 10
"""Batches, after which is looked for some whose files were all deleted."""
_log = logging.getLogger(__name__)
_open: list[FrameQuery] = []
"""Those of this process that have slots, or are about to give them back."""


class QuerySettings(msgspec.Struct, frozen=True):
    """`trigger_ms` None: a batch begins when the one before is written."""

    output_mode: str
    trigger_ms: int | None
    max_unread_batches: int


class FrameQuery:
    """One run of it, whose batches go below `folder`, each in `tasks` files at most. `name`: of the source."""

    def __init__(
        self, frame: DataFrame | None, name: str, settings: QuerySettings, folder: str, tasks: int, keeps: bool
    ) -> None:
        self.folder = folder
        self._frame = frame
        self._name = name
        self._settings = settings
        self._tasks = tasks
        self._keeps = keeps
        self._batches: Batches | None = None
        self._id = uuid.uuid4().hex[:12]
        """Under it the slots are held, and written what is written."""
        self._life = threading.Lock()
        """Held while the query is started, and while it is stopped."""
        self._changed = threading.Condition()
        """For the rest."""
        self._newest = -1
        """The last batch that is complete."""
        self._first_unread = 0
        self._is_stopping = False
        self._is_stopped = threading.Event()
        self._query: StreamingQuery | None = None
        self._error: Exception | None = None
        """What a batch could not be written by."""

    # The enumerator's side.

    def start(self, next_batch: int = 0, unread: Sequence[str] = ()) -> None:
        """Start it, or go on where its own checkpoints are, of which the job has seen the batches before `next_batch`.

        `unread`: files of those that no reader has. Waits for the queries of this process that are being stopped: it
        may be one of them. Raises SourceError if the frame can't be computed, if files that the job needs were deleted,
        and if the session has too few slots.
        """
        for other in [*_open]:
            if other._is_stopping and not other._is_stopped.wait(_STOP_S):
                raise SourceError(f"the query of the DataFrame '{other._name}' of the run before does not end")
        with self._life:
            if self._is_stopping:
                return
            self._batches = Batches(self.folder, self._id)
            self._newest = self._newest_of(self._batches, next_batch, unread)
            frame = usable(self._frame, self._name)
            self._hold_slots(frame)
            _open.append(self)
            self._query = self._begin(frame)
        _log.info(
            "the streaming DataFrame '%s' is written to %s, after batch %d", self._name, self.folder, self._newest
        )

    def files_of(self, batch: int) -> list[str] | None:
        """Wait until a batch is complete; its files. None: the query is being stopped.

        Raises SourceError if the query has ended, or if the batch was deleted.
        """
        while not self._waits_for(batch):
            if self._is_stopping:
                return None
            self._check_runs()
        assert self._batches is not None
        if not self._keeps and batch % _REMOVED_EVERY == 0:
            # What stays is removed later: no job is to fail of it.
            with contextlib.suppress(OSError):
                self._batches.remove_read(before=self._first_unread)
        files = self._batches.files_of(batch)
        if files is None:
            raise SourceError(deleted(f"batch {batch} in {self.folder}"))
        return files

    def read_until(self, batch: int) -> None:
        """All batches before this one have been given to readers."""
        with self._changed:
            self._first_unread = batch
            self._changed.notify_all()

    def stop(self) -> None:
        """Stop it, on another thread."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        threading.Thread(target=self._end, name="penstock-frame-query-end", daemon=True).start()

    def _newest_of(self, batches: Batches, next_batch: int, unread: Sequence[str]) -> int:
        """The last complete batch. From `next_batch` on all have to be there, since Spark computes none twice."""
        newest = max(batches.complete(), default=-1)
        needed = [*unread]
        for batch in range(next_batch, max(newest, last_commit(batches.checkpoints)) + 1):
            files = batches.files_of(batch)
            if files is None:
                raise SourceError(deleted(f"batch {batch} in {self.folder}"))
            needed += files
        missing = missing_of(needed)
        if missing:
            raise SourceError(deleted(missing[0]))
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
        reason = "was stopped from outside" if error is None else f"has failed: {cause_in(str(error))}"
        raise SourceError(f"the query of the streaming DataFrame '{self._name}' {reason}") from error

    def _hold_slots(self, frame: DataFrame) -> None:
        with HELD.lock:
            HELD.hold(self._id, f"query of {self._name}", self._tasks)
            most, needed = slots_at_most(frame.sparkSession), HELD.total
            if most is None or needed <= most:
                return
            HELD.release(self._id)
        # Not NotEnoughSlotsError, after which a job waits for slots: there are none to come.
        raise SourceError(
            f"the query of the streaming DataFrame '{self._name}' needs {self._tasks} slots beside those of the job, "
            f"{needed} in all, and Spark has {most}: start the session with more, as with "
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
            raise SourceError(f"the streaming DataFrame '{self._name}' can't be computed: {reason}") from error

    def _end(self) -> None:
        with self._life:
            # The JVM may be gone, and the query with it.
            with contextlib.suppress(Exception):
                if self._query is not None:
                    self._query.stop()
            HELD.release(self._id)
            if self in _open:
                _open.remove(self)
            self._is_stopped.set()

    # The query's side: a thread of Spark's calls it for each batch.

    def _write(self, rows: DataFrame, batch: int) -> None:
        try:
            self._write_once(rows, batch)
        except Exception as error:
            self._error = error
            raise

    def _write_once(self, rows: DataFrame, batch: int) -> None:
        assert self._batches is not None
        if batch <= self._newest:
            # Complete, though Spark has not noted it before it was killed: readers may have read of it. It is computed
            # all the same: Spark wants to see the state of a stateful query.
            rows.write.format("noop").mode("overwrite").save()
            return
        with self._changed:
            while self._newest + 1 - self._first_unread >= self._settings.max_unread_batches:
                if self._is_stopping:
                    break
                self._changed.wait()
            if self._is_stopping:
                # Spark must not take it for written.
                raise SourceError("the job has ended")
        make_exact(rows.sparkSession)
        rows.coalesce(self._tasks).write.mode("overwrite").parquet(for_spark(self._batches.rows_of(batch)))
        self._batches.publish(batch)
        with self._changed:
            self._newest = batch
            self._changed.notify_all()


def deleted(what: str) -> str:
    """What is said of files that a job needs, and that are not there."""
    return (
        f"{what} is missing: rows of a streaming DataFrame that a job had read, as a later checkpoint of it says. They "
        "are deleted then, unless the source is a StreamingDataFrameSource(frame, keep_files=True): start from the "
        "newest checkpoint or savepoint, or anew without one"
    )
