"""A source that computes its records from their sequence numbers, optionally at a limited rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.api.source import Boundedness, EnumeratorContext, Nothing, ReaderContext, Source
from penstock.common.functions.result_kinds import check_result_kind
from penstock.common.functions.user_calls import results_of
from penstock.common.types.whole_numbers import as_int
from penstock.connectors.base.ranges import RangeSplit, strided
from penstock.connectors.base.rate_limiter import RateLimiter, RateLimiterStrategy
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator
from penstock.connectors.base.split_reader import Chunk, SplitReader

T = TypeVar("T")


class DataGeneratorSource(Source[T]):
    """Emit `generator_function(0)`, `generator_function(1)`, … `generator_function(count - 1)`.

    Of p subtasks, subtask i generates the numbers i, i + p, i + 2p, …. All subtasks advance together, so an unbounded
    generator works at any parallelism. A restart generates the same values if the function depends on its argument
    only. If a job is restored with a higher parallelism, the added subtasks receive no splits. Source: Flink docs,
    "DataGen Connector".
    """

    def __init__(
        self,
        generator_function: Callable[[int], T] | Any,
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        type_info: Any = None,
    ) -> None:
        """Set the generator, the number of records and the rate.

        `generator_function`: a callable from int to a value, or an object with such a method `map` and optionally
        `open(reader_context)` and `close()`. `count`: number of records, or None for an unbounded source.
        `rate_limiter_strategy`: None (the default) means no limit.

        Raise TypeError if the function is not callable, ValueError if `count` is negative.
        """
        if not callable(getattr(generator_function, "map", generator_function)):
            raise TypeError(
                f"generator_function must be a callable or have a method map, got {type(generator_function).__name__}"
            )
        check_result_kind(getattr(generator_function, "map", generator_function), "generator_function")
        records = None if count is None else as_int(count)
        if count is not None and (records is None or records < 0):
            raise ValueError(f"count must be a number of records, 0 or more, or None for unbounded, got {count!r}")
        self._generator_function = generator_function
        self._count = records
        self._rate_limiter_strategy = rate_limiter_strategy or RateLimiterStrategy.no_op()
        self._type_info = type_info

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED if `count` is set."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self._count is None else Boundedness.BOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> FixedSplitEnumerator:
        """Create one split per subtask."""
        return FixedSplitEnumerator(context, strided(self._count, context.parallelism))

    def restore_enumerator(self, context: EnumeratorContext, state: list[RangeSplit]) -> FixedSplitEnumerator:
        """Restore the splits that were not assigned."""
        return FixedSplitEnumerator(context, state)

    def create_reader(self, context: ReaderContext) -> SplitReader[T]:
        """Create a reader limited to this subtask's share of the rate."""
        limiter = self._rate_limiter_strategy.create_rate_limiter(context.parallelism, context.subtask)
        return _GeneratorReader(context, self._generator_function, limiter)

    def get_produced_type(self) -> Any:
        """Return the `type_info` of the constructor."""
        return self._type_info


class _GeneratorReader(SplitReader[T]):
    interleaved = True

    def __init__(self, context: ReaderContext, generator_function: Any, limiter: RateLimiter | None) -> None:
        super().__init__(context)
        self._generator_function = generator_function
        self._make: Callable[[int], T] = getattr(generator_function, "map", generator_function)
        self._limiter = limiter

    def start(self) -> None:
        open_function = getattr(self._generator_function, "open", None)
        if open_function is not None:
            open_function(self.context)
        super().start()

    def read(self, split: RangeSplit, max_records: int) -> Chunk | Nothing:
        limiter = self._limiter
        if limiter is None:
            numbers, position = split.take(max_records)
            return Chunk(results_of(self._make, len(numbers), numbers), position)
        due = limiter.due(self.context.now_ms())
        if due == 0:
            return Nothing(limiter.next_due_ms())
        numbers, position = split.take(min(due, max_records))
        values = results_of(self._make, len(numbers), numbers)
        limiter.take(len(values))
        return Chunk(values, position)

    def close(self) -> None:
        close_function = getattr(self._generator_function, "close", None)
        if close_function is not None:
            close_function()
