"""The interfaces of users' functions.

A plain callable or generator will do as well, wherever no `open`, `close` or `on_timer` is needed. Functions that may
give several results return an iterable, usually by `yield`. A result `tag, value` with an OutputTag goes to that side
output. Source: Flink docs, "User-Defined Functions" and "Process Function".
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
    """One result for each record."""

    @abstractmethod
    def map(self, value: IN) -> OUT:
        """The result for `value`."""


class CoMapFunction(Function, Generic[IN1, IN2, OUT]):
    """One result for each record of two connected streams."""

    @abstractmethod
    def map1(self, value: IN1) -> OUT:
        """The result for a record of the first stream."""

    @abstractmethod
    def map2(self, value: IN2) -> OUT:
        """The result for a record of the second stream."""


class FlatMapFunction(Function, Generic[IN, OUT]):
    """Any number of results for each record."""

    @abstractmethod
    def flat_map(self, value: IN) -> Iterable[OUT] | None:
        """The results for `value`; None is none."""


class CoFlatMapFunction(Function, Generic[IN1, IN2, OUT]):
    """Any number of results for each record of two connected streams."""

    @abstractmethod
    def flat_map1(self, value: IN1) -> Iterable[OUT] | None:
        """The results for a record of the first stream."""

    @abstractmethod
    def flat_map2(self, value: IN2) -> Iterable[OUT] | None:
        """The results for a record of the second stream."""


class FilterFunction(Function, Generic[T]):
    """Which records stay."""

    @abstractmethod
    def filter(self, value: T) -> bool:
        """Whether `value` stays."""


class ReduceFunction(Function, Generic[T]):
    """Two values become one of the same type. Should not depend on the order in which values are combined."""

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """The two combined; `value1` is the older one."""


class AggregateFunction(Function, Generic[IN, ACC, OUT]):
    """Values are added to an accumulator, of which the result is taken in the end."""

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """An accumulator to which nothing was added."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """The accumulator with `value` added; it may be the same object."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """The result. The accumulator may go on to be used."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Two accumulators as one; it may be one of the two. Needed for session windows and for combining in BATCH."""


class KeySelector(Function, Generic[IN, KEY]):
    """What records are grouped by. Must give the same key for the same record, every time."""

    @abstractmethod
    def get_key(self, value: IN) -> KEY:
        """The key of `value`."""


class NullByteKeySelector(KeySelector[Any, int]):
    """One key for all records: brings them to one subtask."""

    def get_key(self, value: Any) -> int:
        """Always 0."""
        return 0


class Partitioner(Function, Generic[KEY]):
    """Which subtask a record goes to."""

    @abstractmethod
    def partition(self, key: KEY, num_partitions: int) -> int:
        """Index of the subtask for records with `key`: 0 to `num_partitions` - 1."""


class SourceFunction(Function, Generic[OUT]):
    """A source as one loop. Newer programs implement `Source`, which can be split and never blocks its task."""

    class SourceContext(ABC):
        """Where the loop puts its records."""

        @abstractmethod
        def collect(self, element: Any) -> None:
            """Emit a record without a timestamp."""

        @abstractmethod
        def collect_with_timestamp(self, element: Any, timestamp: int) -> None:
            """Emit a record with its event time in milliseconds."""

        @abstractmethod
        def emit_watermark(self, timestamp: int) -> None:
            """No record of this event time (ms) or an earlier one will follow."""

        @abstractmethod
        def mark_as_temporarily_idle(self) -> None:
            """Don't wait for this source's watermarks until it emits again."""

    @abstractmethod
    def run(self, ctx: SourceFunction.SourceContext) -> None:
        """Emit records until there are no more, or `cancel` was called."""

    @abstractmethod
    def cancel(self) -> None:
        """Make `run` return soon. Called from another thread."""


class SinkFunction(Function, Generic[IN]):
    """A sink that is called for each record. Promises nothing about records after a failure: see `Sink` for more."""

    class Context(ABC):
        """What is known beside the record itself."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The wall clock, in milliseconds since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The event time of the subtask, in milliseconds."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The record's event time in milliseconds, or None if it has none."""

    @abstractmethod
    def invoke(self, value: IN, context: SinkFunction.Context) -> None:
        """Write `value`."""
