"""Event times of columns are those that rows have."""

from __future__ import annotations

import datetime as dt

import pyarrow
import pytest

from penstock.common import WatermarkStrategy
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.event_time import timed
from penstock.engine.runtime.columns.milliseconds import milliseconds
from penstock.engine.runtime.time.event_time import TimestampError


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Zurich"])
def test_times_before_1970_are_rounded_down(unit: str, zone: str | None) -> None:
    """A record would be in the next window."""
    moments = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_900), dt.datetime(1900, 1, 1, 1, 1, 1, 1)]
    if unit in ("s", "ms"):
        moments = [moment.replace(microsecond=0) for moment in moments]
    column = pyarrow.array(moments, pyarrow.timestamp("us")).cast(pyarrow.timestamp(unit)).cast(pyarrow.int64())
    epoch = dt.datetime(1970, 1, 1)
    expected = [(moment - epoch) // dt.timedelta(milliseconds=1) for moment in moments]
    assert milliseconds(column.cast(pyarrow.timestamp(unit, zone))).tolist() == expected


def test_times_beyond_2_to_the_53_are_exact() -> None:
    """A float would be off by one."""
    assert milliseconds(pyarrow.array([(1 << 53) + 1, -(1 << 62) + 1])).tolist() == [(1 << 53) + 1, -(1 << 62) + 1]
    micros = pyarrow.array([(1 << 60) + 999], pyarrow.timestamp("us"))
    assert milliseconds(micros).tolist() == [((1 << 60) + 999) // 1000]


def test_seconds_that_are_no_time_in_milliseconds_are_refused() -> None:
    """They would wrap to a time near 1970."""
    batch = pyarrow.record_batch({"t": pyarrow.array([0, 1 << 62], pyarrow.timestamp("s"))})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("t")
    with pytest.raises(TimestampError, match="not a valid timestamp"):
        timed(Columns(batch), strategy)
