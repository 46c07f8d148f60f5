"""The sink of generated programs: its output reaches the driver as committables, with timestamps."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.api.sink import Sink, SinkContext, SinkWriter
from penstock.hosts.simulator.lifecycles import current
from penstock.hosts.simulator.programs import Record


class Written(NamedTuple):
    """A committable: the records written, and a name unique over all attempts of all jobs."""

    name: str
    record: Record
    timestamp: int | None


class RecordingSink(Sink[Record]):
    """Commits records in the order in which they were written."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_writer(self, context: SinkContext) -> SinkWriter[Record]:
        return _RecordingWriter(f"{self.name}-{context.attempt}-{context.subtask}")


class _RecordingWriter(SinkWriter[Record]):
    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self._written: list[Written] = []
        current().note(self, "open")

    def write(self, value: Record, timestamp: int | None) -> None:
        assert current().is_open(self), "a writer was used while it was not open"
        self._count += 1
        self._written.append(Written(f"{self._name}-{self._count}", value, timestamp))

    def prepare_commit(self) -> list[Any]:
        written, self._written = self._written, []
        return written

    def close(self) -> None:
        current().note(self, "close")
