"""Sources of an alignment group: they report how far they are, and wait for the others when they are told to."""

from __future__ import annotations

from tests.unit.engine.runtime.hosted_task import Host, Script, Split

from penstock.api.source import END_OF_INPUT, Records
from penstock.common import Duration, WatermarkStrategy
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.engine.runtime.network.buffer import WatermarkStatus
from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.runtime.task.events import AlignWatermarks, AssignSplits, Opaque, ReportWatermark


def aligned(script: Script, idle_ms: int | None = None, batched: bool = False) -> Host:
    strategy = (
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0))
        .with_timestamp_assigner(lambda value, before: value)
        .with_watermark_alignment("group", Duration.of_millis(100), Duration.of_millis(500))
    )
    if idle_ms is not None:
        strategy = strategy.with_idleness(Duration.of_millis(idle_ms))
    return Host(SourceOperator("source", script, strategy, 200), source=True, batched=batched)


def reports(host: Host) -> list[int]:
    return [effect.watermark for effect in host.asks() if isinstance(effect, ReportWatermark)]


def passes(host: Host, ms: int) -> Host:
    host.now_ms += ms
    return host.works()


def test_it_reports_how_far_it_is() -> None:
    """The others would run ahead of a slow source, and hold all that it has not sent yet in their windows."""
    script = Script()
    host = aligned(script).handle(AssignSplits(Opaque([Split()]))).works()
    assert reports(passes(host, 500)) == [], "nothing was read yet: an empty partition must not stop the others"
    script.script.append(Records("s", [1_000, 2_000]))
    host.handle(AssignSplits(Opaque([Split()]))).works()
    passes(host, 200)
    assert reports(passes(host, 300)) == [1_999]


def test_it_waits_while_it_is_ahead() -> None:
    """Records would be buffered without bound in the windows of those that are ahead."""
    script = Script()
    host = aligned(script).handle(AssignSplits(Opaque([Split()])))
    script.script += [Records("s", [1_000]), Records("s", [1_100])]
    host.handle(AlignWatermarks(500)).works()
    passes(host, 200)
    script.script.append(Records("s", [5_000]))
    before = len(script.script)
    host.handle(AlignWatermarks(600)).works()
    assert len(script.script) == before and 5_000 not in host.flushed(), "its watermark is 1,099"
    host.handle(AlignWatermarks(1_099)).works()
    assert not script.script and 5_000 in host.flushed()


def test_what_waits_is_not_idle() -> None:
    """The source that is ahead would leave the group, and its records would be late when it comes back."""
    script = Script()
    host = aligned(script, idle_ms=1_000).handle(AssignSplits(Opaque([Split()])))
    script.script.append(Records("s", [1_000]))
    host.works()
    passes(host, 200)
    script.script.append(Records("s", [5_000]))
    host.handle(AlignWatermarks(500)).works()
    for _ in range(20):
        passes(host, 200)
    assert WatermarkStatus(False) not in host.left() and max(reports(host)) == 999
    host.handle(AlignWatermarks(MAX_TIMESTAMP)).works()
    for _ in range(10):
        passes(host, 200)
    assert WatermarkStatus(False) in host.left(), "now it has nothing to read"
    passes(host, 500)
    assert reports(host)[-1] == MAX_TIMESTAMP, "who is idle holds nobody back"


def test_without_a_group_nothing_is_reported() -> None:
    """Each source of each job would send messages that nobody needs."""
    script = Script()
    host = Host(SourceOperator("source", script, WatermarkStrategy.no_watermarks(), 200), source=True).works()
    passes(host, 5_000)
    assert reports(host) == []
    host.handle(AlignWatermarks(MIN_TIMESTAMP))
    script.script += [Records("s", [1]), END_OF_INPUT]
    host.handle(AssignSplits(Opaque([Split()]))).works()
    assert not script.script, "it waits for nobody"


def test_in_batch_nobody_waits() -> None:
    """Tasks run one after the other there: the first would wait for one that has not begun."""
    script = Script()
    host = aligned(script, batched=True).works()
    passes(host, 5_000)
    assert reports(host) == []
