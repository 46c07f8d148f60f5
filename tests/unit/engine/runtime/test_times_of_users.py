"""Times that functions give: of timers, by each door, and of watermarks."""

from __future__ import annotations

import re
from typing import Any

import numpy
import pytest

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.errors import UserFunctionError
from penstock.common.watermark_strategy import WatermarkGenerator, WatermarkStrategy
from penstock.datastream.functions import KeyedProcessFunction
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.time.event_time import EventTime
from penstock.testing import KeyedOneInputHarness

WRONG = [
    (5.5, "the time of a timer must be an int of milliseconds, got 5.5"),
    (None, "the time of a timer must be an int of milliseconds, got None"),
    ("a", "the time of a timer must be an int of milliseconds, got 'a'"),
    (MAX_TIMESTAMP + 1, f"the time of a timer must be an int of milliseconds within 64 bits, got {MAX_TIMESTAMP + 1}"),
    (MIN_TIMESTAMP - 1, f"the time of a timer must be an int of milliseconds within 64 bits, got {MIN_TIMESTAMP - 1}"),
]
DOORS = [f"{what}_{domain}_timer" for what in ("register", "delete") for domain in ("event_time", "processing_time")]


class Sets(KeyedProcessFunction):
    def __init__(self, door: str) -> None:
        self.door = door

    def process_element(self, value: Any, ctx: Any) -> Any:
        getattr(ctx.timer_service(), self.door)(value)
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp, type(timestamp).__name__


@pytest.mark.parametrize(("time", "message"), WRONG)
@pytest.mark.parametrize("door", DOORS)
def test_a_timer_has_a_time(door: str, time: Any, message: str) -> None:
    """It would never fire, or fail far from the line that has set it, and with one backend only."""
    with (
        KeyedOneInputHarness(Sets(door), key_selector=lambda value: 0) as harness,
        pytest.raises(UserFunctionError, match=re.escape(message)),
    ):
        harness.push(time, timestamp=0)


def test_numbers_of_libraries_are_times() -> None:
    """A time that pandas has computed would be stored as what only numpy can read."""
    with KeyedOneInputHarness(Sets("register_event_time_timer"), key_selector=lambda value: 0) as harness:
        for time in (numpy.int64(5), numpy.int32(5), 5, MIN_TIMESTAMP, MAX_TIMESTAMP):
            harness.push(time, timestamp=0)
        harness.finish()
        assert harness.outputs() == [(MIN_TIMESTAMP, "int"), (5, "int"), (MAX_TIMESTAMP, "int")]


class Emits(WatermarkGenerator):
    def __init__(self, watermark: Any) -> None:
        self.watermark = watermark

    def on_event(self, value: Any, timestamp: int, output: Any) -> None:
        output.emit_watermark(self.watermark)

    def on_periodic_emit(self, output: Any) -> None:
        pass


def test_a_watermark_has_64_bits() -> None:
    """The worker would be taken for dead: what its source has reached could not be reported."""
    strategy = WatermarkStrategy.for_generator(lambda: Emits(1 << 63))
    errors: list[BaseException] = []

    def user_error(error: BaseException, *rest: Any, **more: Any) -> Exception:
        errors.append(error)
        return RuntimeError("the user's")

    with pytest.raises(RuntimeError, match="the user's"):
        list(EventTime(strategy, 200, lambda: 0, user_error).pieces(Rows(["a"], [1])))
    assert "a watermark must be an int of milliseconds within 64 bits" in str(errors[0])
