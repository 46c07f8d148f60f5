"""Polling: how a source takes the place of an input."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.runtime.task.chain import Chain
from penstock.engine.runtime.task.pacing import Pacing


class Polling:
    """Polls the source at the head of a chain, for as many records at a time as a call should take."""

    __slots__ = ("_chain", "_clock", "_pacing", "source")

    def __init__(self, source: SourceOperator, chain: Chain, clock: Callable[[], int], first_records: int) -> None:
        self.source = source
        self._chain = chain
        self._clock = clock
        self._pacing = Pacing(first_records, chain.stretches)

    def is_due(self, now_ms: int) -> bool:
        """Whether the reader may have records now."""
        source = self.source
        return not source.ended and source.poll_at_ms is not None and source.poll_at_ms <= now_ms

    def poll(self, go_on: Callable[[], bool]) -> None:
        """Poll until the reader has nothing for now, the chain is to stop, or `go_on` (the step's budget) is False."""
        source, pacing, clock = self.source, self._pacing, self._clock
        more = True
        while more:
            started_ns = clock()
            more = source.poll(pacing.records_max)
            more = self._chain.deliver() and more
            pacing.adapt(source.polled_records, clock() - started_ns)
            more = more and go_on()
