"""The files of micro-batches as splits, and the reader of one subtask."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence

import msgspec

from penstock.api.source import EndOfInput, Nothing, ReaderContext, Records
from penstock.common.errors import SourceError
from penstock.common.files.file_systems import file_system_of
from penstock.common.stored import stored_as
from penstock.common.types import Row
from penstock.connectors.base.split_reader import Chunk, ChunkedSplitReader
from penstock.connectors.files.formats.format import FileFormat
from penstock.connectors.files.split import FileSplit
from penstock.hosts.spark.frames.batch_folder import missing_text
from penstock.hosts.spark.frames.frame_copy import missing_of

_log = logging.getLogger(__name__)


@stored_as("frame-batch-file")
class BatchFile(msgspec.Struct, frozen=True, gc=False):
    """A file of batch number `batch`, of which `skip` rows were read. `is_read`: all were, so it can be deleted."""

    path: str
    batch: int
    skip: int = 0
    is_read: bool = False

    @property
    def split_id(self) -> str:
        """Return the path: each file is one split."""
        return self.path


class BatchFileReader(ChunkedSplitReader[Row]):
    """Read files one after the other, and delete a file after a completed checkpoint contains it as read.

    Snapshots contain the files to delete until they are deleted, so that a restored job deletes them.
    `keep_files`: never delete a file.
    """

    def __init__(self, context: ReaderContext, file_format: FileFormat, keep_files: bool) -> None:
        super().__init__(context)
        self._format = file_format
        self._deletes = context.checkpointing and not keep_files
        self._read: dict[str, BatchFile] = {}
        """Files read to their end. The thread that deletes a file removes it here."""
        self._read_at: dict[int, list[str]] = {}
        """The paths in `_read` at the time of each pending checkpoint."""

    def poll(self, max_records: int) -> Records | Nothing | EndOfInput:
        """Read from the current file."""
        split: BatchFile | None = self._splits[0] if self._splits else None
        step = super().poll(max_records)
        if split is not None and self._deletes and isinstance(step, Records) and step.split_finished:
            self._read[split.path] = msgspec.structs.replace(split, is_read=True)
        return step

    def open(self, split: BatchFile) -> Iterator[Chunk]:
        """Yield chunks of rows. Raises SourceError if the file is missing."""
        whole_file = FileSplit(path=split.path, start=0, end=None, offset=0, skip=split.skip)
        try:
            for chunk in self._format.read(whole_file, lambda records: None):
                assert chunk.position is not None, "a reader of a Parquet file has a position after each chunk"
                yield Chunk(chunk.values, self.skip(split, chunk.position.skip - split.skip))
        except SourceError:
            if missing_of([split.path]):
                raise SourceError(missing_text(split.path)) from None
            raise

    def skip(self, split: BatchFile, count: int) -> BatchFile:
        """Return the file advanced by `count` rows."""
        return msgspec.structs.replace(split, skip=split.skip + count)

    def add_splits(self, splits: Sequence[BatchFile]) -> None:
        """Append files to the queue, and delete files that the restored checkpoint contains as read."""
        read = [split for split in splits if split.is_read]
        super().add_splits([split for split in splits if not split.is_read])
        if self._deletes:
            self._read.update((split.path, split) for split in read)
            self._delete([split.path for split in read])

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        """Note which files this checkpoint contains as read."""
        self._read_at[checkpoint_id] = list(self._read)

    def snapshot_state(self) -> list[BatchFile]:
        """Return the files not yet read to their end, each at its position, and those to delete."""
        return [*super().snapshot_state(), *list(self._read.values())]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Delete the files that the checkpoint contains as read. Try failed deletions again after the next one."""
        paths = self._read_at.get(checkpoint_id, [])
        self._read_at = {number: read for number, read in self._read_at.items() if number > checkpoint_id}
        self._delete([path for path in paths if path in self._read])

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Forget the checkpoint: the next one contains its files, too."""
        self._read_at.pop(checkpoint_id, None)

    def _delete(self, paths: list[str]) -> None:
        # A poll must not wait for a slow file system.
        if paths:
            threading.Thread(target=self._delete_now, args=(paths,), name="penstock-read-files", daemon=True).start()

    def _delete_now(self, paths: list[str]) -> None:
        for path in paths:
            try:
                system, inner = file_system_of(path)
                system.delete_file(inner)
            except FileNotFoundError:
                pass
            except OSError as error:
                _log.warning("cannot delete %s, which was read: %s", path, error)
                continue
            self._read.pop(path, None)
