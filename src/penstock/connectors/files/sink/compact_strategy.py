"""When the small files of a FileSink are compacted."""

from __future__ import annotations


class FileCompactStrategy:
    """Compacts the files of a bucket after some checkpoints, or when they have some size together.

    Made by `FileCompactStrategy.builder()`. Source: Flink docs, "FileSystem", Compaction.
    """

    def __init__(self, checkpoints: int | None, size_threshold: int | None, threads: int) -> None:
        self.checkpoints = checkpoints
        self.size_threshold = size_threshold
        self.threads = threads

    class Builder:
        """Builds a FileCompactStrategy; each method returns the builder."""

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
            """Compact the files of a bucket as soon as they have as many bytes together."""
            self._size_threshold = _positive("size_threshold", size_threshold)
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Set how many threads of each subtask compact. Default: 1."""
            self._threads = _positive("num_compact_threads", num_compact_threads)
            return self

        def build(self) -> FileCompactStrategy:
            """Return the strategy. Raises ValueError if nothing says when to compact."""
            if self._checkpoints is None and self._size_threshold is None:
                raise ValueError(
                    "a FileCompactStrategy needs to know when to compact: call enable_compaction_on_checkpoint, "
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
