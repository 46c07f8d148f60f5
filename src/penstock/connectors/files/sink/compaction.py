"""Compact the small files of one writer to larger ones.

    closed ─▶ waiting ─── the strategy is met ───▶ compacting ─── done ───▶ returned: to be committed

The writer's state contains files that were not returned: after a restart they wait again. Each subtask compacts its own
files. Source: Flink, `CompactCoordinator` and `CompactorOperator`.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any

import msgspec

from penstock.common.errors import JobError
from penstock.common.stored import stored_as
from penstock.connectors.files.sink.committer import FileCommitter
from penstock.connectors.files.sink.recoverable import RecoverableFile
from penstock.connectors.files.sink.renamed_files import PendingFile
from penstock.connectors.files.storage import resolve_below


class FileCompactStrategy:
    """Compact the files of a bucket after some checkpoints, or when they have some size together.

    Made by `FileCompactStrategy.builder()`. Source: Flink docs, "FileSystem", Compaction.
    """

    def __init__(self, checkpoints: int | None, size_threshold: int | None, threads: int) -> None:
        self.checkpoints = checkpoints
        self.size_threshold = size_threshold
        self.threads = threads

    class Builder:
        """Build a FileCompactStrategy; each method returns the builder."""

        def __init__(self) -> None:
            self._checkpoints: int | None = None
            self._size_threshold: int | None = None
            self._threads = 1

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Compact all files of a bucket with each n-th checkpoint."""
            self._checkpoints = _positive("num_checkpoints_before_compaction", num_checkpoints_before_compaction)
            return self

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Compact the files of a bucket as soon as they have this many bytes together."""
            self._size_threshold = _positive("size_threshold", size_threshold)
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Set how many threads of each subtask compact. Default: 1."""
            self._threads = _positive("num_compact_threads", num_compact_threads)
            return self

        def build(self) -> FileCompactStrategy:
            """Return the strategy. Raise ValueError without a condition for compaction."""
            if self._checkpoints is None and self._size_threshold is None:
                raise ValueError(
                    "a FileCompactStrategy needs a condition: call enable_compaction_on_checkpoint, "
                    "set_size_threshold, or both"
                )
            return FileCompactStrategy(self._checkpoints, self._size_threshold, self._threads)

    @staticmethod
    def builder() -> Builder:
        """Return a builder."""
        return FileCompactStrategy.Builder()


def _positive(what: str, value: int) -> int:
    if value < 1:
        raise ValueError(f"{what} must be 1 or more, got {value}")
    return value


_COPIED_AT_ONCE = 1 << 20


class BadInputError(Exception):
    """A file cannot be read. `position`: its place among the inputs."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position


class FileCompactor(ABC):
    """Make one file of several. Pickled to the workers; called in several threads at the same time."""

    @abstractmethod
    def compact(self, inputs: Sequence[IO[bytes]], output: IO[bytes]) -> None:
        """Write the content of the inputs, which are in the order in which they were written. Do not close them."""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Return a compactor that concatenates files, with `file_delimiter` between them.

        For formats whose records are independent, such as lines: not for Parquet, and not for files with a header.
        """
        return ConcatFileCompactor(file_delimiter)

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Return a compactor of single files, which copies them. It fails for several files."""
        return IdenticalFileCompactor()


class ConcatFileCompactor(FileCompactor):
    """Concatenate the files."""

    def __init__(self, file_delimiter: bytes | None) -> None:
        if file_delimiter is not None and not isinstance(file_delimiter, bytes):
            raise TypeError(f"the delimiter of files must be bytes, got {file_delimiter!r}")
        self.delimiter = file_delimiter

    def compact(self, inputs: Sequence[IO[bytes]], output: IO[bytes]) -> None:
        for position, file in enumerate(inputs):
            if position and self.delimiter:
                output.write(self.delimiter)
            while data := file.read(_COPIED_AT_ONCE):
                output.write(data)


class IdenticalFileCompactor(FileCompactor):
    """Copy the only file."""

    def compact(self, inputs: Sequence[IO[bytes]], output: IO[bytes]) -> None:
        if len(inputs) > 1:
            raise ValueError(f"the identical file compactor expects one file, got {len(inputs)}")
        ConcatFileCompactor(None).compact(inputs, output)


_SHOWN_FILES = 10


@stored_as("file-to-compact")
class FileToCompact(msgspec.Struct, frozen=True, gc=False):
    """A complete hidden file that is not compacted yet."""

    bucket: str
    file: PendingFile
    job_id: str


class Compaction:
    """The compaction of one writer.

    `new_path` returns the name of a compacted file of a bucket, `open_file` opens it in a thread.
    """

    def __init__(
        self,
        strategy: FileCompactStrategy,
        compactor: FileCompactor,
        base_path: str,
        job_id: str,
        new_path: Callable[[str], str],
        open_file: Callable[[str], RecoverableFile],
    ) -> None:
        self._strategy = strategy
        self._compactor = compactor
        self._base_path = base_path
        self._job_id = job_id
        self._new_path = new_path
        self._open_file = open_file
        self._waiting: dict[str, list[FileToCompact]] = {}
        self._bytes: dict[str, int] = {}
        """Bytes of the waiting files, by bucket."""
        self._running: list[tuple[list[FileToCompact], Future[Any]]] = []
        self._checkpoints = 0
        self._threads: ThreadPoolExecutor | None = None
        self._persisted: set[str] = set()

    def add(self, file: FileToCompact) -> None:
        """Add a complete file."""
        self._waiting.setdefault(file.bucket, []).append(file)
        self._bytes[file.bucket] = self._bytes.get(file.bucket, 0) + file.file.size
        threshold = self._strategy.size_threshold
        if threshold is not None and self._bytes[file.bucket] >= threshold:
            self._begin(file.bucket)

    def take(self, everything: bool) -> list[Any]:
        """Return the committables of finished compactions. `everything`: compact and wait for all files."""
        self._checkpoints += 1
        each = self._strategy.checkpoints
        if everything or (each is not None and self._checkpoints % each == 0):
            for bucket in list(self._waiting):
                self._begin(bucket)
        done = [one for one in self._running if everything or one[1].done()]
        # Compute all before any is removed: if one fails, the writer is closed, and removes the others.
        committables = [self._marked(future.result()) for _, future in done]
        self._running = [one for one in self._running if one not in done]
        return committables

    def items(self) -> list[FileToCompact]:
        """Return the state for a checkpoint: the files that were not returned by `take`."""
        found = self._files()
        self._persisted = {one.file.pending_path for one in found}
        return found

    def close(self) -> None:
        """Remove files that were not returned and are in no checkpoint."""
        committer = FileCommitter(self._base_path)
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        for _, future in self._running:
            if not future.cancelled() and future.exception() is None:
                committer.abort([self._marked(future.result())])
        committer.abort([self._marked(one.file) for one in self._files()])

    def _files(self) -> list[FileToCompact]:
        running = [file for files, _ in self._running for file in files]
        return running + [file for files in self._waiting.values() for file in files]

    def _begin(self, bucket: str) -> None:
        files = self._waiting.pop(bucket)
        del self._bytes[bucket]
        path = self._new_path(bucket)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._strategy.threads, "compaction")
        self._running.append((files, self._threads.submit(self._compact, path, files)))

    def _compact(self, path: str, files: list[FileToCompact]) -> Any:
        """Compact the files, and return a committable. Called in a thread."""
        if len(files) == 1:
            return files[0].file
        target = self._open_file(path)
        try:
            with contextlib.ExitStack() as opened:
                self._compactor.compact([opened.enter_context(self._read(one.file)) for one in files], target.out)
            compacted = target.finish()
        except JobError:
            target.discard()
            raise
        except Exception as error:
            target.discard()
            raise _with_names(error, [one.file.pending_path for one in files], path) from error
        except BaseException:
            target.discard()
            raise
        # Other files belong to the job from whose state this one started, and that job may need them.
        own_files = [one.file for one in files if one.job_id == self._job_id]
        replaced = [path for file in own_files for path in (file.pending_path, *file.replaced)]
        return msgspec.structs.replace(compacted, replaced=tuple(replaced))

    def _read(self, file: PendingFile) -> Any:
        system, path = resolve_below(self._base_path, file.pending_path)
        try:
            return system.open_input_file(path)
        except FileNotFoundError as error:
            raise JobError(
                f"the part file {file.pending_path} cannot be compacted: it is missing. A run that continued from this "
                "checkpoint has compacted it; start from a later checkpoint, or from a savepoint"
            ) from error

    def _marked(self, file: Any) -> Any:
        """Return a committable that records whether a checkpoint names its file."""
        if isinstance(file, PendingFile) and file.pending_path in self._persisted:
            return msgspec.structs.replace(file, is_persisted=True)
        return file


def _with_names(error: Exception, inputs: list[str], output: str) -> JobError:
    """Return the error of a compaction with the names of its files."""
    if isinstance(error, BadInputError):
        return JobError(f"cannot compact the part file {inputs[error.position]} into {output}: {error}")
    shown = ", ".join(inputs[:_SHOWN_FILES])
    if len(inputs) > _SHOWN_FILES:
        shown += f" and {len(inputs) - _SHOWN_FILES} more"
    return JobError(f"cannot compact the part files {shown} into {output}: {error!r}")
