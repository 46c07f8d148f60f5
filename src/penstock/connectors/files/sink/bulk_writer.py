"""Part files of bulk formats: a file is complete only after its BulkWriter has finished it."""

from __future__ import annotations

from typing import Any

from pyarrow import fs

from penstock.api.sink import SinkContext
from penstock.common.serialization import BulkWriterFactory
from penstock.connectors.files.sink.part import OutputFileConfig, PartFile, PendingFile
from penstock.connectors.files.sink.rolling import RollingPolicy
from penstock.connectors.files.sink.writer import FileWriter


class BulkPart(PartFile):
    """A part file with a BulkWriter. `size` counts the bytes that the writer has flushed."""

    def __init__(
        self,
        file_system: fs.FileSystem,
        inner_path: str,
        pending: PendingFile,
        now_ms: int,
        factory: BulkWriterFactory,
    ) -> None:
        super().__init__(file_system, inner_path, pending, now_ms)
        try:
            self._writer = factory.create(self._stream)
        except BaseException:
            super().discard()
            raise

    def add(self, records: list[Any], now_ms: int) -> None:
        """Add records to the writer."""
        self._writer.add_elements(records)
        self.size = self._stream.tell()
        self.written_ms = now_ms

    def flush(self) -> None:
        self._writer.flush()
        super().flush()

    def finish(self) -> PendingFile:
        self._writer.finish()
        self.size = self._stream.tell()
        return super().finish()

    def discard(self) -> None:
        self._writer.discard()
        super().discard()


class BulkFileWriter(FileWriter[BulkPart]):
    """Passes chunks to the BulkWriters of their buckets."""

    def __init__(
        self,
        context: SinkContext,
        base_path: str,
        assigner: Any,
        policy: RollingPolicy,
        names: OutputFileConfig,
        *,
        factory: BulkWriterFactory,
    ) -> None:
        super().__init__(context, base_path, assigner, policy, names)
        self._factory = factory

    def _open_part(self, file_system: fs.FileSystem, inner_path: str, pending: PendingFile, now_ms: int) -> BulkPart:
        return BulkPart(file_system, inner_path, pending, now_ms, self._factory)

    def _append(self, bucket: str, records: list[Any], now_ms: int) -> None:
        if not records:
            return
        part = self._part(bucket, now_ms)
        part.add(records, now_ms)
        limit = self._policy.size_limit()
        if limit is not None and part.size >= limit:
            self._roll(bucket)
