"""NexmarkSource and its builder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow

from penstock.api.source import Boundedness, EnumeratorContext, Nothing, ReaderContext, Source
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.typeinfo import RowTypeInfo
from penstock.common.types import Row
from penstock.connectors.base.options import checked_at_least
from penstock.connectors.base.rate_limiter import RateLimiter, RateLimiterStrategy
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator
from penstock.connectors.base.split_reader import Chunk, SplitReader
from penstock.connectors.nexmark.ahead import EventsAhead
from penstock.connectors.nexmark.configuration import NexmarkConfiguration
from penstock.connectors.nexmark.generator import EVENTS_MAX, NexmarkGenerator
from penstock.connectors.nexmark.schema import EVENT_ROW, unknown_column
from penstock.connectors.nexmark.split import NexmarkSplit, dealt

if TYPE_CHECKING:
    from collections.abc import Sequence


class NexmarkSource(Source[Row]):
    """Emit the events of the Nexmark benchmark: people, auctions, and bids on auctions.

    Create it with a builder: `NexmarkSource.builder().set_event_count(1_000_000).build()`. Records are Rows of the
    table that the benchmark publishes: `event_type` (0: person, 1: auction, 2: bid), the Rows `person`, `auction` and
    `bid`, of which two are None, and `dateTime`, the time of the event, which is also the timestamp of the record.
    With `as_columns` behind it, the source generates columns, and only those that are read.

    Of p subtasks, each generates every p-th epoch (50 events), so that the events are the same at any parallelism, and
    in order within a subtask. A restart generates the same events again. If a job is restored with a higher
    parallelism, the added subtasks receive no splits. Source: github nexmark/nexmark, NexmarkSource; its events at
    parallelism 1.
    """

    def __init__(
        self,
        configuration: NexmarkConfiguration,
        event_count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        *,
        columns: RecordColumns | None = None,
    ) -> None:
        self._configuration = configuration
        self._event_count = event_count
        self._rate_limiter_strategy = rate_limiter_strategy or RateLimiterStrategy.no_op()
        self._columns = columns

    @staticmethod
    def builder() -> NexmarkSourceBuilder:
        """Return a builder."""
        return NexmarkSourceBuilder()

    def describe(self) -> str:
        count = "events without end" if self._event_count is None else f"{self._event_count:,} events"
        return f"{count}, seed {self._configuration.seed}"

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED after `set_event_count`."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self._event_count is None else Boundedness.BOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> FixedSplitEnumerator:
        """Create one split per subtask."""
        splits = dealt(self._event_count, self._configuration.epoch_events, context.parallelism)
        return FixedSplitEnumerator(context, splits)

    def restore_enumerator(self, context: EnumeratorContext, state: Sequence[NexmarkSplit]) -> FixedSplitEnumerator:
        """Restore the splits that were not assigned."""
        return FixedSplitEnumerator(context, state)

    def create_reader(self, context: ReaderContext) -> SplitReader[Row]:
        """Create a reader limited to this subtask's share of the rate."""
        limiter = self._rate_limiter_strategy.create_rate_limiter(context.parallelism, context.subtask)
        if self._columns is None:
            return _RowReader(context, NexmarkGenerator(self._configuration), limiter)
        return _ColumnReader(context, NexmarkGenerator(self._configuration, self._columns.schema), limiter)

    def get_produced_type(self) -> RowTypeInfo:
        """Return the type of an event."""
        return EVENT_ROW

    def on_columns(self, columns: RecordColumns) -> NexmarkSource | None:
        """Return a source of batches, unless events lack a column or have another type."""
        if unknown_column(columns.schema) is not None or any(not field.nullable for field in columns.schema):
            return None
        return NexmarkSource(self._configuration, self._event_count, self._rate_limiter_strategy, columns=columns)


class _ColumnReader(SplitReader[Any]):
    interleaved = True

    def __init__(self, context: ReaderContext, generator: NexmarkGenerator, limiter: RateLimiter | None) -> None:
        super().__init__(context)
        self._generator = generator
        self._limiter = limiter
        self._ahead = EventsAhead(generator)

    def read(self, split: NexmarkSplit, max_records: int) -> Chunk | Nothing:
        limiter, count = self._limiter, min(max_records, EVENTS_MAX)
        if limiter is None:
            positions, rest = split.take(count)
            batch, times_ms = self._generator.timed_events_at(positions)
        else:
            count = min(count, limiter.due(self.context.now_ms()))
            if count == 0:
                return Nothing(limiter.next_due_ms())
            batch, times_ms, rest = self._ahead.take(split, count)
            limiter.take(len(times_ms))
        return Chunk(self.values_of(batch), rest, self.times_of(times_ms))

    def values_of(self, batch: pyarrow.RecordBatch) -> Any:
        """Return the batch as it is."""
        return batch

    def times_of(self, times_ms: Any) -> Any:
        """Return the times as they are: an operator on columns needs an array."""
        return times_ms


class _RowReader(_ColumnReader):
    def __init__(self, context: ReaderContext, generator: NexmarkGenerator, limiter: RateLimiter | None) -> None:
        super().__init__(context, generator, limiter)
        self._rows_of = RecordColumns(EVENT_ROW).reader()

    def values_of(self, batch: pyarrow.RecordBatch) -> list[Any]:
        return self._rows_of(batch)

    def times_of(self, times_ms: Any) -> list[int]:
        times: list[int] = times_ms.tolist()
        return times


class NexmarkSourceBuilder:
    """Settings of a NexmarkSource. Each method returns the builder."""

    def __init__(self) -> None:
        self._configuration = NexmarkConfiguration()
        self._event_count: int | None = None
        self._rate_limiter_strategy: RateLimiterStrategy | None = None

    def set_configuration(self, configuration: NexmarkConfiguration) -> NexmarkSourceBuilder:
        """Set proportions, sizes, hot ratios, seed, and the rate in event time. Raise TypeError for anything else."""
        if not isinstance(configuration, NexmarkConfiguration):
            raise TypeError(f"expected a NexmarkConfiguration, got {configuration!r}")
        self._configuration = configuration
        return self

    def set_event_count(self, event_count: int | None) -> NexmarkSourceBuilder:
        """Set how many events the source has; None (the default): it has no end. Raise ValueError if negative."""
        self._event_count = None if event_count is None else checked_at_least("event_count", event_count, 0)
        return self

    def set_rate_limiter_strategy(self, rate_limiter_strategy: RateLimiterStrategy) -> NexmarkSourceBuilder:
        """Set the rate in processing time, such as `RateLimiterStrategy.per_second(20_000)`. Default: no limit."""
        if not isinstance(rate_limiter_strategy, RateLimiterStrategy):
            raise TypeError(f"expected a RateLimiterStrategy, got {rate_limiter_strategy!r}")
        self._rate_limiter_strategy = rate_limiter_strategy
        return self

    def build(self) -> NexmarkSource:
        """Create the source."""
        return NexmarkSource(self._configuration, self._event_count, self._rate_limiter_strategy)
