import pickle
from datetime import timedelta
from typing import Any

import pytest

from penstock.common import Duration, WatermarkStrategy
from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.watermark_strategy import (
    HasTimestamp,
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkOutput,
    timestamp_of,
)


class Emitted(WatermarkOutput):
    def __init__(self) -> None:
        self.watermarks: list[int] = []

    def emit_watermark(self, timestamp: int | HasTimestamp) -> None:
        self.watermarks.append(timestamp_of(timestamp))

    def mark_idle(self) -> None: ...

    def mark_active(self) -> None: ...


class Announced(WatermarkGenerator):
    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        if value == "mark":
            output.emit_watermark(timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None: ...


class Second(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


def test_bounded_watermark_is_max_less_bound_less_one() -> None:
    """Records exactly at the bound would be dropped as late."""
    generator = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(20)).create_generator()
    output = Emitted()
    generator.on_periodic_emit(output)
    generator.on_chunk(["a", "b"], [100, 90], output)
    generator.on_periodic_emit(output)
    generator.on_chunk([], [], output)
    generator.on_event("c", 50, output)
    generator.on_periodic_emit(output)
    assert output.watermarks == [MIN_TIMESTAMP, 79, 79] and not generator.punctuated


def test_chunks_and_single_records_give_the_same_watermark() -> None:
    """Watermarks would depend on how records are cut into chunks."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    by_chunk, by_record, output = strategy.create_generator(), strategy.create_generator(), Emitted()
    by_chunk.on_chunk([0] * 4, [-5, 3, 2, 3], output)
    for timestamp in (-5, 3, 2, 3):
        by_record.on_event(0, timestamp, output)
    by_chunk.on_periodic_emit(output)
    by_record.on_periodic_emit(output)
    assert output.watermarks == [2, 2]


def test_a_users_generator_sees_each_record() -> None:
    """Punctuated watermarks would be lost."""
    generator, output = WatermarkStrategy.for_generator(Announced).create_generator(), Emitted()
    generator.on_chunk(["x", "mark", "mark"], [1, 2, 3], output)
    assert output.watermarks == [2, 3] and generator.punctuated


def test_no_watermarks_are_none() -> None:
    """Event time would advance in a program without watermarks."""
    generator, output = WatermarkStrategy.no_watermarks().create_generator(), Emitted()
    generator.on_chunk([1], [1], output)
    generator.on_periodic_emit(output)
    assert output.watermarks == []


def test_each_split_has_its_own_generator() -> None:
    """One fast partition would make the records of all others late."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    first, second, output = strategy.create_generator(), strategy.create_generator(), Emitted()
    first.on_event(0, 100, output)
    second.on_periodic_emit(output)
    assert output.watermarks == [MIN_TIMESTAMP]


def test_a_timestamp_assigner_is_set_and_all_else_is_a_new_strategy() -> None:
    """A PyFlink program that ignores the result of with_timestamp_assigner would have no timestamps, without a word."""
    base = WatermarkStrategy.for_monotonous_timestamps()
    base.with_timestamp_assigner(Second())
    full = base.with_idleness(timedelta(seconds=3)).with_watermark_alignment("g", Duration.of_seconds(2))
    assert base.timestamp_assigner is not None and (base.idle_timeout_ms, base.alignment) == (None, None)
    assert full.timestamp_assigner is not None and full.timestamp_assigner(("a", 7), MIN_TIMESTAMP) == 7
    assert (full.idle_timeout_ms, full.alignment) == (3000, ("g", 2000, 1000))


def test_built_in_strategies_can_be_pickled() -> None:
    """No source with a strategy would reach a worker."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(5).with_idleness(1)
    restored = pickle.loads(pickle.dumps(strategy))
    assert restored.idle_timeout_ms == 1 and not restored.create_generator().punctuated


def test_wrong_arguments_are_refused_where_they_are_given() -> None:
    """A one-argument lambda as assigner would fail late, in a worker."""
    base = WatermarkStrategy.no_watermarks()
    with pytest.raises(TypeError, match="must accept two arguments"):
        base.with_timestamp_assigner(lambda value: value[1])  # type: ignore[misc, arg-type]
    with pytest.raises(TypeError, match="TimestampAssigner or a function"):
        base.with_timestamp_assigner(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="every split needs"):
        WatermarkStrategy.for_generator(Announced())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not a WatermarkGenerator"):
        WatermarkStrategy.for_generator(lambda: 3).create_generator()  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="0 ms or more"):
        WatermarkStrategy.for_bounded_out_of_orderness(-1)
    with pytest.raises(ValueError, match="more than 0 ms"):
        base.with_idleness(0)
