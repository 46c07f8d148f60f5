"""Generate events some thousands at a time for a source that needs a few of them at a time, because of its rate."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow

from penstock.connectors.nexmark.generator import NexmarkGenerator
from penstock.connectors.nexmark.numbering import Ints
from penstock.connectors.nexmark.split import NexmarkSplit

_AHEAD = 4096
"""A call of the generator costs as much as some thousand events, whatever their number."""


class _Known(NamedTuple):
    """The events of a split from position `first` on, and their times (ms)."""

    first: int
    batch: pyarrow.RecordBatch
    times_ms: Ints


class EventsAhead:
    """Reads splits, each generated ahead by `ahead` events, which are the same ones whenever they are generated."""

    def __init__(self, generator: NexmarkGenerator, ahead: int = _AHEAD) -> None:
        self._generator = generator
        self._ahead = ahead
        self._known: dict[str, _Known] = {}

    def take(self, split: NexmarkSplit, count: int) -> tuple[pyarrow.RecordBatch, Ints, NexmarkSplit | None]:
        """Return up to `count` next events of a split, at least one, their times (ms), and the rest of the split."""
        known = self._known.get(split.split_id)
        if known is None or not 0 <= split.position - known.first < len(known.times_ms):
            positions, _ = split.take(max(count, self._ahead))
            known = self._known[split.split_id] = _Known(split.position, *self._generator.timed_events_at(positions))
        start = split.position - known.first
        times_ms = known.times_ms[start : start + count]
        rest = split.behind(len(times_ms))
        if rest is None:
            del self._known[split.split_id]
        return known.batch.slice(start, count), times_ms, rest
