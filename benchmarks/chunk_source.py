"""The source of all measurements: values are computed a chunk at a time, so that the source is not the bottleneck.

It uses the public interface of sources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.api.source import Boundedness, EnumeratorContext, Nothing, ReaderContext, Source
from penstock.connectors.base.ranges import RangeSplit, strided
from penstock.connectors.base.rate_limiter import RateLimiter, RateLimiterStrategy
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator
from penstock.connectors.base.split_reader import Chunk, SplitReader


class ChunkSource(Source[Any]):
    """Emits the values that `make(numbers)` returns for ranges of integers, one per number.

    `count`: how many, None: without an end. `rate`: records/s over all subtasks, 0 for no limit. After a pause at
    most 100 ms worth of records is released at once. Numbers below `at_once` are emitted without a limit.
    `make_batch` returns the values as a batch of Arrow, for programs on columns.
    """

    def __init__(
        self,
        make: Callable[[range], Any],
        rate: float = 0,
        at_once: int = 0,
        make_batch: Callable[[range], Any] | None = None,
        *,
        count: int | None = None,
    ) -> None:
        self._make = make
        self._count = count
        self._make_batch = make_batch
        self._rate = rate
        self._at_once = at_once

    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED if self._count is None else Boundedness.BOUNDED

    def on_columns(self, columns: Any) -> ChunkSource | None:
        return None if self._make_batch is None else self._of(self._make_batch)

    def _of(self, make: Callable[[range], Any]) -> ChunkSource:
        return ChunkSource(make, self._rate, self._at_once, count=self._count)

    def create_enumerator(self, context: EnumeratorContext) -> FixedSplitEnumerator:
        return FixedSplitEnumerator(context, strided(self._count, context.parallelism))

    def restore_enumerator(self, context: EnumeratorContext, state: list[RangeSplit]) -> FixedSplitEnumerator:
        return FixedSplitEnumerator(context, state)

    def create_reader(self, context: ReaderContext) -> SplitReader[Any]:
        strategy = RateLimiterStrategy.per_second(self._rate) if self._rate else RateLimiterStrategy.no_op()
        limiter = strategy.create_rate_limiter(context.parallelism, context.subtask)
        return _ChunkReader(context, self._make, limiter, self._at_once)


class _ChunkReader(SplitReader[Any]):
    interleaved = True

    def __init__(
        self, context: ReaderContext, make: Callable[[range], list[Any]], limiter: RateLimiter | None, at_once: int
    ) -> None:
        super().__init__(context)
        self._make = make
        self._limiter = limiter
        self._at_once = at_once

    def read(self, split: RangeSplit, max_records: int) -> Chunk | Nothing:
        limiter = self._limiter
        if limiter is not None and split.position >= self._at_once:
            max_records = min(max_records, limiter.due(self.context.now_ms()))
            if not max_records:
                return Nothing(limiter.next_due_ms())
            limiter.take(max_records)
        numbers, position = split.take(max_records)
        return Chunk(self._make(numbers), position)
