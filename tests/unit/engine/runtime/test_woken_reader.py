"""A reader with a thread of its own wakes its task."""

from __future__ import annotations

from typing import Any

from tests.unit.engine.runtime.hosted_task import Host

from penstock.api.source import Nothing, ReaderContext, Records, SourceReader
from penstock.common import WatermarkStrategy
from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.runtime.task.events import DataAvailable
from penstock.hosts.spark.worker.event_loop import ReaderNotices


class Waiting(SourceReader[int]):
    """Has nothing until it is given something; it never says when to ask again."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.polls = 0
        self.context: ReaderContext | None = None

    def create_reader(self, context: ReaderContext) -> Waiting:
        self.context = context
        return self

    def poll(self, max_records: int) -> Records | Nothing:
        self.polls += 1
        values, self.received = self.received, []
        return Records("s", values) if values else Nothing()

    def add_splits(self, splits: Any) -> None:
        pass

    def no_more_splits(self) -> None:
        pass

    def snapshot_state(self) -> list[Any]:
        return []


def test_a_reader_that_waits_is_polled_when_it_has_said_so() -> None:
    """Records that have arrived would lie there until something else happens."""
    reader = Waiting()
    source: Any = SourceOperator("source", reader, WatermarkStrategy.no_watermarks(), 200)  # type: ignore[arg-type]
    host = Host(source, source=True)
    host.works()
    before = reader.polls
    host.works()
    assert reader.polls == before, "it was asked again, though it has nothing"

    reader.received = [1, 2]
    host.handle(DataAvailable())
    host.works()

    assert source.context.counters.records_in == 2


def test_metrics_of_a_reader_are_reported_with_its_operator() -> None:
    """How far a source is behind could not be seen."""
    reader = Waiting()
    source: Any = SourceOperator("source", reader, WatermarkStrategy.no_watermarks(), 200)  # type: ignore[arg-type]
    Host(source, source=True)
    assert reader.context is not None
    reader.context.metric_group.gauge("lag", lambda: 7)

    source.metrics.collect()

    assert source.context.counters.user == {"lag": 7}


def test_notices_wake_the_slot_and_are_told_once() -> None:
    """A slot would sleep over a notice, or work through a thousand of one kind."""
    rung: list[int] = []
    notices = ReaderNotices(lambda: rung.append(1))

    notices.notify(3)
    notices.notify(3)

    assert rung
    assert notices.take() == [(3, DataAvailable())]
    assert notices.take() == []
