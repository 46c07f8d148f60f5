# ruff: noqa: D102 - these methods are documented by their interfaces
"""The sink of generated programs: what it wrote comes to the driver as committables, with timestamps."""

from __future__ import annotations

from typing import Any

from penstock.runtime.sink import Sink, SinkContext, SinkWriter
from penstock.testing.simulator.lifecycles import current
from penstock.testing.simulator.programs import Record


class RecordingSink(Sink[Record]):
    """Hands over (record, timestamp) in the order in which they were written."""

    def create_writer(self, context: SinkContext) -> SinkWriter[Record]:
        return _RecordingWriter()


class _RecordingWriter(SinkWriter[Record]):
    def __init__(self) -> None:
        self._written: list[Any] = []
        current().note(self, "open")

    def write(self, value: Record, timestamp: int | None) -> None:
        assert current().is_open(self), "a writer was used while it was not open"
        self._written.append((value, timestamp))

    def prepare_commit(self) -> list[Any]:
        written, self._written = self._written, []
        return written

    def close(self) -> None:
        current().note(self, "close")
