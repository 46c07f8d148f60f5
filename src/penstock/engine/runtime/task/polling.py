"""When the source at the head of a chain is polled, and for how many records."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.runtime.task.chain import Chain
from penstock.engine.runtime.task.column_pacing import pacing_of

_POLLS_PER_TIMEOUT = 5
"""Records that wait for a buffer's timeout wait for a fifth of it in the source: fewer polls give larger chunks."""


def pause_of(timeout_ms: int) -> int:
    """Return how long an empty reader rests before it is polled again, by the buffers' timeout (ms).

    Less the resolution of the clock: the usual timeout leaves no pause.
    """
    return max(0, timeout_ms // _POLLS_PER_TIMEOUT - 1)


class Polling:
    """Polls the source at the head of a chain, for as many records at a time as a call should process.

    A reader that was empty is polled again after `pause_ms` at the earliest.
    """

    __slots__ = ("_chain", "_clock", "_pacing", "_pause_ms", "_polled_ms", "source")

    def __init__(
        self, source: SourceOperator, chain: Chain, clock: Callable[[], int], *, first_records: int, pause_ms: int
    ) -> None:
        self.source = source
        self._chain = chain
        self._clock = clock
        self._pacing = pacing_of(source.gives, first_records, chain.sections)
        self._pause_ms = pause_ms
        self._polled_ms: int | None = None
        """When the polls began that ended with an empty reader; None: there may be more records."""

    @property
    def at_ms(self) -> int | None:
        """When to poll next; None: not before the reader says so."""
        at_ms = None if self.source.ended else self.source.poll_at_ms
        return at_ms if at_ms is None or self._polled_ms is None else max(at_ms, self._polled_ms + self._pause_ms)

    def is_due(self, now_ms: int) -> bool:
        """Return whether the reader may have records now."""
        if self._polled_ms is not None and now_ms < self._polled_ms:
            # The clock was set back.
            self._polled_ms = None
        at_ms = self.at_ms
        return at_ms is not None and at_ms <= now_ms

    def poll(self, may_continue: Callable[[], bool], now_ms: int) -> None:
        """Poll until the reader is empty for now, the chain pauses, or `may_continue` (of the budget) returns False."""
        source, pacing, clock = self.source, self._pacing, self._clock
        more, self._polled_ms = True, None
        while more:
            started_ns = clock()
            more = source.poll(pacing.records_max)
            more = self._chain.deliver() and more
            pacing.adapt(source.polled_records, clock() - started_ns)
            if not source.polled_records:
                self._polled_ms = now_ms
            more = more and may_continue()
