"""Assignment of timestamps and generation of watermarks.

A watermark t declares that no more records with a timestamp of t or less are expected. Source: Flink docs, "Generating
Watermarks" and "Builtin Watermark Generators".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.doors import pyflink_names
from penstock.common.functions.arity import accepts_arguments
from penstock.common.functions.field_timestamp import FieldTimestamp
from penstock.common.functions.result_kinds import check_method_kinds, check_result_kind
from penstock.common.time import TimeLength, to_milliseconds


class TimestampAssigner(ABC):
    """Assigns event timestamps to records."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the timestamp of `value`, in milliseconds since the epoch.

        `record_timestamp` is the record's current timestamp, or -2**63 if it has no timestamp.
        """


class HasTimestamp(Protocol):
    """A watermark object."""

    @property
    def timestamp(self) -> int:
        """Event time in milliseconds."""


class WatermarkOutput(ABC):
    """Receives the watermarks of a generator."""

    @abstractmethod
    def emit_watermark(self, timestamp: int | HasTimestamp) -> None:
        """Declare that no record with this timestamp (ms) or an earlier one follows. This also ends idleness.

        A watermark lower than the previous one is ignored.
        """

    @abstractmethod
    def mark_idle(self) -> None:
        """Exclude this output from event time downstream until it is marked active or emits a watermark."""

    @abstractmethod
    def mark_active(self) -> None:
        """Include this output in event time again."""


def timestamp_of(watermark: Any) -> Any:
    """Return the milliseconds of a watermark: an int, or an object with a `timestamp`."""
    timestamp = watermark if isinstance(watermark, int) else getattr(watermark, "timestamp", watermark)
    # The `timestamp` of a datetime is a method, and returns seconds.
    return watermark if callable(timestamp) else timestamp


class WatermarkGenerator(ABC):
    """Observes the records of one source split and generates its watermarks.

    `punctuated`: whether `on_event` may emit a watermark, which is then placed between two records. Set it to False (a
    class attribute suffices) if only `on_periodic_emit` emits: records are then passed chunk by chunk, which is much
    faster.
    """

    punctuated: bool = True

    @abstractmethod
    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Update the generator from a record and its timestamp (ms), or emit a watermark."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit a watermark.

        Called every `pipeline.auto-watermark-interval` and at the split's end, but not while idle.
        """

    def on_chunk(self, values: Sequence[Any], timestamps: Sequence[int], output: WatermarkOutput) -> None:
        """Update the generator from a chunk of records. It must be equivalent to `on_event` for each, in order."""
        on_event = self.on_event
        for value, timestamp in zip(values, timestamps, strict=True):
            on_event(value, timestamp, output)


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    """Emits the highest timestamp so far, minus the bound, minus 1 ms (equal timestamps may still follow)."""

    punctuated = False

    def __init__(self, max_out_of_orderness_ms: int) -> None:
        self._delay_ms = max_out_of_orderness_ms + 1
        self._max_timestamp = MIN_TIMESTAMP + self._delay_ms

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Update the highest timestamp."""
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp

    def on_chunk(self, values: Sequence[Any], timestamps: Sequence[int], output: WatermarkOutput) -> None:
        """Update the highest timestamp from a chunk."""
        if timestamps:
            self._max_timestamp = max(self._max_timestamp, max(timestamps))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit the watermark of the records so far. Before the first record it is the lowest watermark."""
        output.emit_watermark(self._max_timestamp - self._delay_ms)


class NoWatermarks(WatermarkGenerator):
    """Never emits a watermark: event time does not advance."""

    punctuated = False

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Do nothing."""

    def on_chunk(self, values: Sequence[Any], timestamps: Sequence[int], output: WatermarkOutput) -> None:
        """Do nothing."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Do nothing."""


AssignerFunction: TypeAlias = Callable[[Any, int], int]


class WatermarkAlignment(NamedTuple):
    """Pauses sources of a group while their watermark is more than `max_drift_ms` ahead of the slowest source."""

    group: str
    max_drift_ms: int
    update_interval_ms: int


@dataclass(eq=False, slots=True)
class WatermarkStrategy:
    """Defines timestamps and watermarks of a source. Later changes of it do not affect streams created with it.

    As in PyFlink, `with_timestamp_assigner` changes the strategy itself and returns it. The other `with_…` methods
    return a new strategy. Source: Flink docs, "Generating Watermarks".
    """

    _generator_supplier: Callable[[], WatermarkGenerator]
    timestamp_assigner: AssignerFunction | None = None
    """(value, record timestamp or -2**63) -> timestamp, in ms. If None, records keep their timestamps."""
    idle_timeout_ms: int | None = None
    """Time in ms without records after which a split becomes idle. If None, splits do not become idle."""
    alignment: WatermarkAlignment | None = None

    @property
    def has_watermarks(self) -> bool:
        """Whether event time advances: not by `no_watermarks()`."""
        return self._generator_supplier is not NoWatermarks

    @property
    def needs_no_records(self) -> bool:
        """Whether watermarks follow from the highest timestamp of a chunk alone."""
        supplier = self._generator_supplier
        made = supplier.func if isinstance(supplier, partial) else supplier
        return made in (NoWatermarks, BoundedOutOfOrdernessWatermarks)

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Return a strategy for timestamps that never decrease in a split: watermarks are 1 ms behind the last one."""
        return WatermarkStrategy(partial(BoundedOutOfOrdernessWatermarks, 0))

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: TimeLength) -> WatermarkStrategy:
        """Return a strategy for records up to `max_out_of_orderness` behind the highest timestamp of their split.

        Raises ValueError if it is negative.
        """
        bound_ms = to_milliseconds(max_out_of_orderness)
        if bound_ms < 0:
            raise ValueError(f"the bound of out-of-orderness must be 0 ms or more, got {bound_ms} ms")
        return WatermarkStrategy(partial(BoundedOutOfOrdernessWatermarks, bound_ms))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Return a strategy without watermarks, for programs in processing time."""
        return WatermarkStrategy(NoWatermarks)

    @staticmethod
    def for_generator(generator_supplier: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Return a strategy with a custom generator.

        `generator_supplier`, its class or a factory, is called per split.
        """
        if not callable(generator_supplier):
            raise TypeError(
                f"expected a generator class or a factory function, got {generator_supplier!r}: "
                "every split needs its own generator"
            )
        return WatermarkStrategy(generator_supplier)

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | AssignerFunction | str
    ) -> WatermarkStrategy:
        """Extract timestamps from records with a TimestampAssigner, or a function (value, record_timestamp) -> ms.

        The name of a field serves, too: its values are ints (ms) or datetimes, without a zone in UTC. That form also
        works on columns, and is not in PyFlink. Changes this strategy and returns it. Raises TypeError for any other
        argument.
        """
        if isinstance(timestamp_assigner, str):
            self.timestamp_assigner = FieldTimestamp(timestamp_assigner)
            return self
        if isinstance(timestamp_assigner, TimestampAssigner):
            check_method_kinds(timestamp_assigner, TimestampAssigner)
            self.timestamp_assigner = timestamp_assigner.extract_timestamp
            return self
        if not callable(timestamp_assigner):
            raise TypeError(
                f"expected a TimestampAssigner or a function, or the name of a field, got {timestamp_assigner!r}"
            )
        if not accepts_arguments(timestamp_assigner, 2):
            raise TypeError(
                f"a timestamp assigner must accept two arguments, the value and its current timestamp, got "
                f"{timestamp_assigner!r}"
            )
        check_result_kind(timestamp_assigner, "the timestamp assigner")
        self.timestamp_assigner = timestamp_assigner
        return self

    def with_idleness(self, idle_timeout: TimeLength) -> WatermarkStrategy:
        """Return a strategy that marks a split idle after `idle_timeout` without records.

        Raises ValueError unless it is above 0.
        """
        return replace(self, idle_timeout_ms=_positive_ms("the idle timeout", idle_timeout))

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: TimeLength,
        update_interval: TimeLength | None = None,
    ) -> WatermarkStrategy:
        """Return a strategy that pauses a source too far ahead of the slowest source of its `watermark_group`.

        `update_interval`: the interval at which watermarks are compared, 1 s by default. Raises ValueError unless the
        drift and the interval are above 0. Source: Flink docs, "Generating Watermarks", Watermark Alignment.
        """
        drift_ms = _positive_ms("the drift allowed", max_allowed_watermark_drift)
        interval_ms = 1000 if update_interval is None else _positive_ms("the update interval", update_interval)
        return replace(self, alignment=WatermarkAlignment(watermark_group, drift_ms, interval_ms))

    def create_generator(self) -> WatermarkGenerator:
        """Create a generator for one split. Raises TypeError if the supplier returns another object."""
        generator = self._generator_supplier()
        if not isinstance(generator, WatermarkGenerator):
            raise TypeError(
                f"the supplier of WatermarkStrategy.for_generator returned {generator!r}, "
                "which is not a WatermarkGenerator"
            )
        check_method_kinds(generator, WatermarkGenerator)
        return generator


def _positive_ms(what: str, length: TimeLength) -> int:
    length_ms = to_milliseconds(length)
    if length_ms <= 0:
        raise ValueError(f"{what} must be more than 0 ms, got {length_ms} ms")
    return length_ms


pyflink_names.resolve_missing_names(__name__)
