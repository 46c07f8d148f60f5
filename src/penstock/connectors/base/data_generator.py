"""A source that computes its records from their sequence numbers, optionally at a limited rate."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.api.source import Boundedness, EnumeratorContext, Nothing, ReaderContext, Source
from penstock.common.functions.result_kinds import check_result_kind
from penstock.common.functions.user_calls import results_of
from penstock.common.types.whole_numbers import as_int
from penstock.connectors.base.generated_fields import GeneratedFields
from penstock.connectors.base.ranges import RangeSplit, strided
from penstock.connectors.base.rate_limiter import RateLimiter, RateLimiterStrategy
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator
from penstock.connectors.base.split_reader import Chunk, SplitReader

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

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
        generator_function: Callable[[int], T] | GeneratedFields | Any,
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        type_info: Any = None,
    ) -> None:
        """Set the generator, the number of records and the rate.

        `generator_function`: a callable from int to a value, or an object with such a method `map` and optionally
        `open(reader_context)` and `close()`; or a GeneratedFields, which computes many records at a time. `count`:
        number of records, or None for an unbounded source. `rate_limiter_strategy`: None (the default) means no limit.

        Raise TypeError if the function is not callable, ValueError if `count` is negative.
        """
        if not isinstance(generator_function, GeneratedFields):
            if not callable(getattr(generator_function, "map", generator_function)):
                raise TypeError(
                    "generator_function must be a callable, have a method map, or be a GeneratedFields, got "
                    f"{type(generator_function).__name__}"
                )
            check_result_kind(getattr(generator_function, "map", generator_function), "generator_function")
        records = None if count is None else as_int(count)
        if count is not None and (records is None or records < 0):
            raise ValueError(f"count must be a number of records, 0 or more, or None for unbounded, got {count!r}")
        self._generator_function = generator_function
        self._count = records
        self._rate_limiter_strategy = rate_limiter_strategy or RateLimiterStrategy.no_op()
        self._type_info = type_info
        self._columns: RecordColumns | None = None
        """The columns of its batches, None: it has records."""

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
        if not isinstance(self._generator_function, GeneratedFields):
            return _GeneratorReader(context, self._generator_function, limiter)
        if self._columns is None:
            return _RowReader(context, self._generator_function, limiter)
        return _ColumnReader(context, self._generator_function, limiter, self._columns)

    def get_produced_type(self) -> Any:
        """Return the `type_info` of the constructor; of GeneratedFields, by default the type of its Rows."""
        fields = self._generator_function
        if self._type_info is None and isinstance(fields, GeneratedFields) and fields.columns.have_row_kinds:
            return fields.columns.record_type
        return self._type_info

    def on_columns(self, columns: RecordColumns) -> DataGeneratorSource[Any] | None:
        """Return a source of batches, if it has GeneratedFields with these columns."""
        fields = self._generator_function
        if not isinstance(fields, GeneratedFields) or not set(columns.schema) <= set(fields.columns.schema):
            return None
        of_columns: DataGeneratorSource[Any] = copy(self)
        of_columns._columns = columns
        return of_columns


class _NumberReader(SplitReader[T]):
    """Computes records from their numbers, as many as the rate allows."""

    interleaved = True

    def __init__(self, context: ReaderContext, limiter: RateLimiter | None) -> None:
        super().__init__(context)
        self._limiter = limiter

    @abstractmethod
    def records(self, numbers: range) -> Any:
        """Return the records with these numbers, as a list or as a batch."""

    def read(self, split: RangeSplit, max_records: int) -> Chunk | Nothing:
        limiter = self._limiter
        if limiter is None:
            numbers, position = split.take(max_records)
            return Chunk(self.records(numbers), position)
        due = limiter.due(self.context.now_ms())
        if due == 0:
            return Nothing(limiter.next_due_ms())
        numbers, position = split.take(min(due, max_records))
        values = self.records(numbers)
        limiter.take(len(values))
        return Chunk(values, position)


class _GeneratorReader(_NumberReader[T]):
    """Calls a function for each record."""

    def __init__(self, context: ReaderContext, generator_function: Any, limiter: RateLimiter | None) -> None:
        super().__init__(context, limiter)
        self._generator_function = generator_function
        self._make: Callable[[int], T] = getattr(generator_function, "map", generator_function)

    def start(self) -> None:
        open_function = getattr(self._generator_function, "open", None)
        if open_function is not None:
            open_function(self.context)
        super().start()

    def records(self, numbers: range) -> list[Any]:
        return results_of(self._make, len(numbers), numbers)

    def close(self) -> None:
        close_function = getattr(self._generator_function, "close", None)
        if close_function is not None:
            close_function()


class _RowReader(_NumberReader[Any]):
    def __init__(self, context: ReaderContext, fields: GeneratedFields, limiter: RateLimiter | None) -> None:
        super().__init__(context, limiter)
        self._fields = fields
        self._rows_of = fields.columns.reader()

    def records(self, numbers: range) -> list[Any]:
        return self._rows_of(self._fields.batch(numbers))


class _ColumnReader(_NumberReader[Any]):
    def __init__(
        self, context: ReaderContext, fields: GeneratedFields, limiter: RateLimiter | None, columns: RecordColumns
    ) -> None:
        super().__init__(context, limiter)
        self._fields = fields
        self._columns = columns

    def records(self, numbers: range) -> Any:
        return self._fields.batch(numbers, self._columns)
