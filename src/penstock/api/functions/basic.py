"""The interfaces of user functions.

A plain callable or generator is accepted as well if `open`, `close` and `on_timer` are not needed. Functions with any
number of results return an iterable, usually by `yield`. A result `tag, value` with an OutputTag goes to that side
output; filters and functions that reduce or aggregate have no side outputs. Source: Flink docs, "User-Defined
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


class MapBatchesFunction(Function):
    """Returns columns for the columns of each batch: see `DataStream.map_batches`."""

    @abstractmethod
    def map_batches(self, batch: Any) -> Any:
        """Return the result for `batch`, in the same format."""


class FilterBatchesFunction(Function):
    """Decides which rows of a batch to keep: see `DataStream.filter_batches`."""

    @abstractmethod
    def filter_batches(self, batch: Any) -> Any:
        """Return an array of booleans, one for each row of `batch`."""


class CoMapFunction(Function, Generic[IN1, IN2, OUT]):
    """Returns a result for each record of two connected streams. None emits nothing, as in PyFlink."""

    @abstractmethod
    def map1(self, value: IN1) -> OUT | None:
        """Return the result for a record of the first stream, or None."""

    @abstractmethod
    def map2(self, value: IN2) -> OUT | None:
        """Return the result for a record of the second stream, or None."""


class FlatMapFunction(Function, Generic[IN, OUT]):
    """Returns any number of results for each record."""

    @abstractmethod
    def flat_map(self, value: IN) -> Iterable[OUT] | None:
        """Return the results for `value`. None is the same as an empty iterable."""


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
    """Combines two values into one of the same type. The result should not depend on the order of combination.

    `is_combinable`: set it to True to let BATCH reduce records before they are sent. The function must then give the
    same result for parts of the records, in any order, and keep the key of its arguments: a sum does; a count of calls
    does not. This attribute is not in Flink.
    """

    is_combinable: bool = False

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """Return the combination; `value1` is the older value."""


class MapPartitionFunction(Function, Generic[IN, OUT]):
    """Returns any number of results for all records of a partition. Source: Flink, MapPartitionFunction."""

    @abstractmethod
    def map_partition(self, values: Iterable[IN]) -> Iterable[OUT] | None:
        """Return the results, usually by `yield`. `values` can be read once, and may be more than fit into memory."""


class CrossFunction(Function, Generic[IN1, IN2, OUT]):
    """Returns one result for each pair of records of two streams. Source: Flink, CrossFunction."""

    @abstractmethod
    def cross(self, val1: IN1, val2: IN2) -> OUT:
        """Return the result for a pair."""


class AggregateFunction(Function, Generic[IN, ACC, OUT]):
    """Adds values to an accumulator and computes the result from it.

    `shares_slices`: set it to True to let overlapping sliding windows share accumulators: each record is added once,
    not once for each of its windows, and `merge` combines the accumulators when a window fires. `merge` must then give
    the same result as adding all records in the order of arrival. Sums do (of floats: up to rounding); the last value,
    or a list, does not. If it is False (the default), `merge` is called for merging windows only, as in Flink. With it,
    BATCH also aggregates the records of a full window before they are sent.
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
        """Merge two accumulators; may return one of them. Called for session windows, and if `shares_slices` is set."""


class KeySelector(Function, Generic[IN, KEY]):
    """Extracts the key of records. It must be deterministic: always the same key for the same record."""

    @abstractmethod
    def get_key(self, value: IN) -> KEY:
        """Return the key of `value`."""


class NullByteKeySelector(KeySelector[Any, int]):
    """Returns the same key for all records, which sends them to one subtask."""

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

    New programs should implement `Source`: it reads in parallel and never blocks its task.
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
        """Emit records until the source ends, or `cancel` is called."""

    @abstractmethod
    def cancel(self) -> None:
        """Make `run` return soon. The call comes from another thread."""


class SinkFunction(Function, Generic[IN]):
    """A sink called for each record. It gives no guarantees after a failure; implement `Sink` for these."""

    class Context(ABC):
        """Context of a record."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time, in milliseconds since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the current watermark of the subtask, in milliseconds."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the record's event time in milliseconds, or None if it has no timestamp."""

    @abstractmethod
    def invoke(self, value: IN, context: SinkFunction.Context) -> None:
        """Write `value`."""
