"""Event time at its origin: where a record's timestamp comes from, and how watermarks follow from timestamps.

A watermark of t says that no record with a timestamp of t or less is to be expected any more. Source: Flink docs,
"Generating Watermarks" and "Builtin Watermark Generators".
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.time import TimeLength, to_milliseconds


class TimestampAssigner(ABC):
    """Gives records their event time."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """The timestamp of `value`, in milliseconds since the epoch.

        `record_timestamp` is the one it has so far, or -2**63 if it has none.
        """


class HasTimestamp(Protocol):
    """A watermark as an object: it carries its time in milliseconds."""

    @property
    def timestamp(self) -> int:
        """Milliseconds of event time."""


class WatermarkOutput(ABC):
    """Where a generator puts its watermarks. Given to it by the runtime."""

    @abstractmethod
    def emit_watermark(self, timestamp: int | HasTimestamp) -> None:
        """No record with this timestamp (ms) or an earlier one will come. A step back is ignored. Ends idleness."""

    @abstractmethod
    def mark_idle(self) -> None:
        """This output does not hold back event time downstream until it is active again."""

    @abstractmethod
    def mark_active(self) -> None:
        """This output takes part in event time again."""


def timestamp_of(watermark: int | HasTimestamp) -> int:
    """Milliseconds of a watermark that is given as such or as an object with a `timestamp`."""
    return watermark if isinstance(watermark, int) else watermark.timestamp


class WatermarkGenerator(ABC):
    """Follows the records of one source split and says how far event time has come.

    `punctuated` tells the runtime that `on_event` may emit. Then it is called record by record and a watermark takes
    its place between two records. Where it is False (a class attribute will do) watermarks come from
    `on_periodic_emit` only, and records are handed over chunk by chunk, which is much faster.
    """

    punctuated: bool = True

    @abstractmethod
    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Called for each record with its timestamp (ms): remember it, or emit a watermark that it announces."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called every `pipeline.auto-watermark-interval`, and when the split ends."""

    def on_chunk(self, values: Sequence[Any], timestamps: Sequence[int], output: WatermarkOutput) -> None:
        """Called for a chunk of records, in order; the same as `on_event` for each of them."""
        on_event = self.on_event
        for value, timestamp in zip(values, timestamps, strict=True):
            on_event(value, timestamp, output)


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    """The watermark is the highest timestamp so far, less the bound, less 1 ms: equal timestamps may still follow."""

    punctuated = False

    def __init__(self, max_out_of_orderness_ms: int) -> None:
        self._delay_ms = max_out_of_orderness_ms + 1
        self._max_timestamp = MIN_TIMESTAMP + self._delay_ms

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Remember the timestamp if it is the highest so far."""
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp

    def on_chunk(self, values: Sequence[Any], timestamps: Sequence[int], output: WatermarkOutput) -> None:
        """Remember the highest timestamp of the chunk."""
        if timestamps:
            self._max_timestamp = max(self._max_timestamp, max(timestamps))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit the watermark that the records so far allow; the lowest there is before the first of them."""
        output.emit_watermark(self._max_timestamp - self._delay_ms)


class NoWatermarks(WatermarkGenerator):
    """Never emits a watermark: event time stands still."""

    punctuated = False

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Does nothing."""

    def on_chunk(self, values: Sequence[Any], timestamps: Sequence[int], output: WatermarkOutput) -> None:
        """Does nothing."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Does nothing."""


AssignerFunction: TypeAlias = Callable[[Any, int], int]


class WatermarkAlignment(NamedTuple):
    """Sources of one group wait for each other when their watermarks are more than `max_drift_ms` apart."""

    group: str
    max_drift_ms: int
    update_interval_ms: int


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """How a source gets its timestamps and watermarks. Immutable: each `with_…` returns a new strategy.

    Source: Flink docs, "Generating Watermarks".
    """

    _generator_supplier: Callable[[], WatermarkGenerator]
    timestamp_assigner: AssignerFunction | None = None
    """(value, record timestamp or -2**63) -> timestamp, in ms. None: records keep the timestamps they have."""
    idle_timeout_ms: int | None = None
    """A split without a record for that long is idle. None: never."""
    alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """For timestamps that never go down within a split: the watermark follows 1 ms behind the last one."""
        return WatermarkStrategy(partial(BoundedOutOfOrdernessWatermarks, 0))

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: TimeLength) -> WatermarkStrategy:
        """For records that come at most `max_out_of_orderness` after one of a later time. Raises ValueError if < 0."""
        bound_ms = to_milliseconds(max_out_of_orderness)
        if bound_ms < 0:
            raise ValueError(f"the bound of out-of-orderness must be 0 ms or more, got {bound_ms} ms")
        return WatermarkStrategy(partial(BoundedOutOfOrdernessWatermarks, bound_ms))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """No watermarks at all, for programs in processing time."""
        return WatermarkStrategy(NoWatermarks)

    @staticmethod
    def for_generator(generator_supplier: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Watermarks by your own generator: give its class, or a function that makes one. Each split gets its own."""
        if not callable(generator_supplier):
            raise TypeError(
                f"expected a class of generators or a function that makes one, got {generator_supplier!r}: "
                "every split needs a generator of its own"
            )
        return WatermarkStrategy(generator_supplier)

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner | AssignerFunction) -> WatermarkStrategy:
        """Take timestamps from the records: a TimestampAssigner, or a function (value, record_timestamp) -> ms.

        Raises TypeError if it is neither.
        """
        if isinstance(timestamp_assigner, TimestampAssigner):
            return replace(self, timestamp_assigner=timestamp_assigner.extract_timestamp)
        if not callable(timestamp_assigner):
            raise TypeError(f"expected a TimestampAssigner or a function, got {timestamp_assigner!r}")
        try:
            inspect.signature(timestamp_assigner).bind(None, MIN_TIMESTAMP)
        except TypeError:
            raise TypeError(
                f"a timestamp assigner takes two arguments, the value and the timestamp that it has so far; "
                f"{timestamp_assigner!r} can't be called so"
            ) from None
        except ValueError:
            pass  # Written in C, without a signature to look at.
        return replace(self, timestamp_assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: TimeLength) -> WatermarkStrategy:
        """A split without records for `idle_timeout` no longer holds back event time. Raises ValueError unless > 0."""
        return replace(self, idle_timeout_ms=_positive_ms("the idle timeout", idle_timeout))

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: TimeLength,
        update_interval: TimeLength | None = None,
    ) -> WatermarkStrategy:
        """Pause sources of `watermark_group` that are ahead of its slowest by more than the drift allowed.

        `update_interval` says how often they compare; 1 s unless given. Raises ValueError unless both are above 0.
        """
        drift_ms = _positive_ms("the drift allowed", max_allowed_watermark_drift)
        interval_ms = 1000 if update_interval is None else _positive_ms("the update interval", update_interval)
        return replace(self, alignment=WatermarkAlignment(watermark_group, drift_ms, interval_ms))

    def create_generator(self) -> WatermarkGenerator:
        """A new generator, for one split. Raises TypeError if the supplier gives something else."""
        generator = self._generator_supplier()
        if not isinstance(generator, WatermarkGenerator):
            raise TypeError(
                f"WatermarkStrategy.for_generator was given a supplier that makes {generator!r}, "
                "which is no WatermarkGenerator"
            )
        return generator


def _positive_ms(what: str, length: TimeLength) -> int:
    length_ms = to_milliseconds(length)
    if length_ms <= 0:
        raise ValueError(f"{what} must be more than 0 ms, got {length_ms} ms")
    return length_ms
