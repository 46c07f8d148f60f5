"""How often a source is polled whose records wait for a buffer's timeout: polls for single records cost a core."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.runtime.hosted_task import Host
from tests.unit.engine.runtime.test_woken_reader import Waiting

from penstock.common import WatermarkStrategy
from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.runtime.task.events import DataAvailable


def host_of(reader: Waiting, timeout_ms: int, *, leaves: bool = True) -> tuple[Host, Any]:
    source: Any = SourceOperator("source", reader, WatermarkStrategy.no_watermarks(), 200)  # type: ignore[arg-type]
    host = Host(source, source=True, leaves=leaves, buffer_timeout_ms=timeout_ms)
    host.works()
    host.now_ms += 1000
    return host, source.context.counters


def arrives(host: Host, reader: Waiting) -> None:
    reader.received.append(1)
    host.handle(DataAvailable())
    host.works()


def test_records_that_would_wait_in_a_buffer_are_read_together() -> None:
    """A steady source would give chunks of single records, which take a core."""
    reader = Waiting()
    host, counters = host_of(reader, timeout_ms=100)

    arrives(host, reader)
    assert counters.records_in == 1, "the first record after a pause waited"
    for _ in range(3):
        host.now_ms += 1
        arrives(host, reader)
    assert counters.records_in == 1
    assert host.slot.wake_at_ms() == host.now_ms - 3 + 19
    host.now_ms += 16
    host.works()

    assert counters.records_in == 4


@pytest.mark.parametrize(("timeout_ms", "leaves"), [(5, True), (0, True), (-1, True), (100, False)])
def test_records_that_wait_for_no_buffer_are_read_at_once(timeout_ms: int, leaves: bool) -> None:
    """The usual timeout is too short to be divided; what a chained sink takes waits for no buffer."""
    reader = Waiting()
    host, counters = host_of(reader, timeout_ms, leaves=leaves)

    arrives(host, reader)
    arrives(host, reader)

    assert counters.records_in == 2


def test_a_clock_that_is_set_back_delays_no_poll() -> None:
    """The source would stand still until the clock has caught up."""
    reader = Waiting()
    host, counters = host_of(reader, timeout_ms=100)
    arrives(host, reader)

    host.now_ms -= 500
    arrives(host, reader)

    assert counters.records_in == 2
