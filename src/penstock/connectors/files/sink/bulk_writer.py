"""Part files of bulk formats: a file is complete only after its BulkWriter has finished it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.api.sink import SinkContext
from penstock.common.serialization import BulkWriterFactory
from penstock.connectors.files.sink.part import PartFile
from penstock.connectors.files.sink.recoverable import RecoverableFile
from penstock.connectors.files.sink.writer import FileSinkSettings, FileWriter


class BulkPart(PartFile):
    """A part file with a BulkWriter. `size` counts the bytes that the writer has flushed."""

    def __init__(self, file: RecoverableFile, created_ms: int, now_ms: int, factory: BulkWriterFactory) -> None:
        super().__init__(file, created_ms, now_ms)
        self._writer = factory.create(self._out)

    def add(self, records: list[Any], now_ms: int) -> None:
        """Add records to the writer."""
        self._writer.add_elements(records)
        self.size = self._out.tell()
        self.written_ms = now_ms

    def flush(self) -> None:
        self._writer.flush()
        super().flush()

    def finish(self) -> Any:
        self._writer.finish()
        return super().finish()

    def discard(self) -> None:
        self._writer.discard()
        super().discard()


class BulkFileWriter(FileWriter[BulkPart]):
    """Pass chunks to the BulkWriters of their buckets."""

    _can_continue = False

    def __init__(
        self,
        context: SinkContext,
        settings: FileSinkSettings,
        restored: Sequence[Any] = (),
        *,
        factory: BulkWriterFactory,
    ) -> None:
        super().__init__(context, settings, restored)
        self._factory = factory

    def _new_part(self, file: RecoverableFile, created_ms: int) -> BulkPart:
        return BulkPart(file, created_ms, self._context.now_ms(), self._factory)

    def _append(self, bucket: str, records: list[Any], now_ms: int) -> None:
        if not records:
            return
        part = self._part(bucket, now_ms)
        part.add(records, now_ms)
        limit = self._policy.size_limit()
        if limit is not None and part.size >= limit:
            self._roll(bucket)
