"""The interfaces of user functions.

Where `open`, `close` and `on_timer` are not needed, a plain callable or generator is accepted as well. Functions with
any number of results return an iterable, usually by `yield`. A result `tag, value` with an OutputTag is sent to that
side output, from all functions but filters and those that reduce or aggregate. Source: Flink docs, "User-Defined
Functions" and "Process Function".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from penstock.api.functions.function import Function

T = TypeVar("T")
IN = TypeVar("IN")
IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
ACC = TypeVar("ACC")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")


class MapFunction(Function, Generic[IN, OUT]):
    """Returns one result for each record."""

    @abstractmethod
    def map(self, value: IN) -> OUT:
        """Return the result for `value`."""


class CoMapFunction(Function, Generic[IN1, IN2, OUT]):
    """Returns a result for each record of two connected streams; for None nothing is emitted, as in PyFlink."""

    @abstractmethod
    def map1(self, value: IN1) -> OUT | None:
        """Return the result for a record of the first stream, if there is one."""

    @abstractmethod
    def map2(self, value: IN2) -> OUT | None:
        """Return the result for a record of the second stream, if there is one."""


class FlatMapFunction(Function, Generic[IN, OUT]):
    """Returns any number of results for each record."""

    @abstractmethod
    def flat_map(self, value: IN) -> Iterable[OUT] | None:
        """Return the results for `value`; None means none."""


class CoFlatMapFunction(Function, Generic[IN1, IN2, OUT]):
    """Returns any number of results for each record of two connected streams."""

    @abstractmethod
    def flat_map1(self, value: IN1) -> Iterable[OUT] | None:
        """Return the results for a record of the first stream."""

    @abstractmethod
    def flat_map2(self, value: IN2) -> Iterable[OUT] | None:
        """Return the results for a record of the second stream."""


class FilterFunction(Function, Generic[T]):
    """Decides which records are kept."""

    @abstractmethod
    def filter(self, value: T) -> bool:
        """Return whether to keep `value`."""


class ReduceFunction(Function, Generic[T]):
    """Combines two values into one of the same type. Should not depend on the order of combination."""

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """Return the combination; `value1` is the older value."""


class AggregateFunction(Function, Generic[IN, ACC, OUT]):
    """Adds values to an accumulator and computes the result from it.

    `shares_slices`: whether sliding windows that overlap may share accumulators, and call `merge` when they fire. Each
    record is added once then, not once for each of its windows. Set it to True if `merge` gives what adding all records
    in the order of their arrival gives: sums do (of floats, but for rounding), the last value or a list does not.
    Flink calls `merge` only for windows that merge, and so it is here without it.
    """

    shares_slices: bool = False

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """Return an empty accumulator."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """Return the accumulator with `value` added; it may be the same object."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """Return the result. The accumulator may be updated afterwards."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Merge two accumulators; may return one of them. Called for session windows, and where `shares_slices`."""


class KeySelector(Function, Generic[IN, KEY]):
    """Extracts the key of records. Must be deterministic: always the same key for the same record."""

    @abstractmethod
    def get_key(self, value: IN) -> KEY:
        """Return the key of `value`."""


class NullByteKeySelector(KeySelector[Any, int]):
    """One key for all records, which sends them to one subtask."""

    def get_key(self, value: Any) -> int:
        """Return 0."""
        return 0


class Partitioner(Function, Generic[KEY]):
    """Selects the subtask of a record."""

    @abstractmethod
    def partition(self, key: KEY, num_partitions: int) -> int:
        """Return the index of the subtask for records with `key`: 0 to `num_partitions` - 1."""


class SourceFunction(Function, Generic[OUT]):
    """A source written as one loop.

    New programs should implement `Source`: it can be split and never blocks its task.
    """

    class SourceContext(ABC):
        """Receives the records of the loop."""

        @abstractmethod
        def collect(self, element: Any) -> None:
            """Emit a record without a timestamp."""

        @abstractmethod
        def collect_with_timestamp(self, element: Any, timestamp: int) -> None:
            """Emit a record with its event time in milliseconds."""

        @abstractmethod
        def emit_watermark(self, timestamp: int) -> None:
            """Declare that no record of this event time (ms) or an earlier one follows."""

        @abstractmethod
        def mark_as_temporarily_idle(self) -> None:
            """Exclude this source from event time until it emits again."""

    @abstractmethod
    def run(self, ctx: SourceFunction.SourceContext) -> None:
        """Emit records until there are no more, or `cancel` is called."""

    @abstractmethod
    def cancel(self) -> None:
        """Make `run` return soon. Called on another thread."""


class SinkFunction(Function, Generic[IN]):
    """A sink called for each record. Without guarantees after a failure; implement `Sink` for these."""

    class Context(ABC):
        """Context of a record."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Processing time, in milliseconds since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Current watermark of the subtask, in milliseconds."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The record's event time in milliseconds, or None if it has none."""

    @abstractmethod
    def invoke(self, value: IN, context: SinkFunction.Context) -> None:
        """Write `value`."""
