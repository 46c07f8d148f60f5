"""Metrics of users' functions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy
import pytest

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.engine.rpc.messages import FromSlot, Heartbeat, OperatorReport, TaskReport, decode_to_job_master, encode
from penstock.engine.runtime.task.metrics import OperatorCounters, OperatorMetricGroup, TaskCounters, watermark_lag_ms


def test_metrics_are_collected_under_their_groups() -> None:
    """A counter in a group would overwrite one of the same name outside."""
    counters = OperatorCounters("m")
    group = OperatorMetricGroup(counters)
    group.counter("n").inc(3)
    group.counter("n").dec()
    inside = group.add_group("kind", "late")
    inside.counter("n").inc()
    inside.meter("rate").mark_event(5)
    group.add_group("plain").gauge("g", lambda: 1.5)
    sizes = group.distribution("size")
    for size in (4, -2):
        sizes.update(size)
    group.collect()
    assert counters.user == {
        "n": 2,
        "kind.late.n": 1,
        "kind.late.rate": 5,
        "plain.g": 1.5,
        "size.count": 2,
        "size.sum": 2,
        "size.min": -2,
        "size.max": 4,
    }
    assert counters.extremes == {"size.min": "min", "size.max": "max"}


def test_a_name_is_one_metric_of_one_kind() -> None:
    """Two functions that count under one name would each see half."""
    group = OperatorMetricGroup(OperatorCounters("m"))
    assert group.counter("n") is group.counter("n")
    assert group.meter("m") is group.meter("m")
    assert group.distribution("d") is group.distribution("d")
    for other in (group.meter, group.distribution):
        with pytest.raises(ValueError, match="'n' is registered as a Counter already"):
            other("n")
    with pytest.raises(ValueError, match="'m' is registered as a Meter already"):
        group.counter("m")


@pytest.mark.parametrize("gauge", [lambda: 1 // 0, lambda: None, lambda: "seven"])
def test_a_broken_gauge_harms_nobody(gauge) -> None:
    """The heartbeats of the slot would stop, and with them the job."""
    counters = OperatorCounters("m")
    group = OperatorMetricGroup(counters)
    group.gauge("broken", gauge)
    group.counter("n").inc()
    group.collect()
    assert counters.user == {"n": 1}


@pytest.mark.parametrize(
    ("value", "reported"),
    [
        (numpy.float64(1.5), 1.5), (numpy.int32(7), 7), (numpy.float32(0.5), 0.5), (True, 1), (Fraction(1, 4), 0.25),
        ((1 << 64) - 1, (1 << 64) - 1), (-(1 << 63), -(1 << 63)),
    ],
)  # fmt: skip
def test_numbers_of_libraries_can_be_reported(value: Any, reported: float) -> None:
    """A gauge that returns the mean of an array would end the thread that sends heartbeats."""
    counters = OperatorCounters("m")
    group = OperatorMetricGroup(counters)
    group.gauge("g", lambda: value)
    group.collect()
    assert counters.user == {"g": reported} and type(counters.user["g"]) in (int, float)
    report = Heartbeat([TaskReport(0, 0, *[0] * 10, [OperatorReport("m", 0, 0, 0, 0, counters.user)])])
    assert decode_to_job_master(encode(FromSlot(0, 0, 0, report))) == FromSlot(0, 0, 0, report)


def test_a_number_that_no_report_can_hold_is_left_out() -> None:
    """A hash that is counted up would end the thread that sends heartbeats, and the last one before it would stay."""
    counters = OperatorCounters("m")
    group = OperatorMetricGroup(counters)
    group.counter("n").inc(1 << 60)
    group.collect()
    assert counters.user == {"n": 1 << 60}
    group.counter("n").inc(1 << 64)
    group.distribution("size").update(-(1 << 70))
    group.collect()
    assert counters.user == {"size.count": 1}


@pytest.mark.parametrize("register", ["counter", "gauge", "meter", "distribution", "add_group"])
def test_names_that_can_not_be_written_are_refused(register: str) -> None:
    """The worker would be taken for dead a minute later: its heartbeats could not be encoded."""
    group = OperatorMetricGroup(OperatorCounters("m"))
    more = [lambda: 1] if register == "gauge" else []
    with pytest.raises(ValueError, match=r"must be Unicode text without lone surrogates, got 'n\\udc80'"):
        getattr(group, register)("n\udc80", *more)
    with pytest.raises(TypeError, match="must be a str, got 7"):
        getattr(group, register)(7, *more)
    with pytest.raises(ValueError, match="a group of metrics"):
        group.add_group("fine", "\ud800")


def test_an_empty_distribution_can_be_read() -> None:
    """The first heartbeat would fail."""
    counters = OperatorCounters("m")
    group = OperatorMetricGroup(counters)
    group.distribution("d")
    group.collect()
    assert set(counters.user.values()) == {0}


def test_latencies_are_summed_up() -> None:
    """Mean and maximum latency would be wrong."""
    counters = TaskCounters()
    for ms in (3, 9, 6):
        counters.latency(ms)
    assert (counters.latency_count, counters.latency_sum_ms, counters.latency_max_ms) == (3, 18, 9)


def test_the_lag_of_event_time_is_there_while_event_time_goes_on() -> None:
    """A source without timestamps, or one that has ended, would be shown as millions of years behind or ahead."""
    counters = OperatorCounters("source")
    group = OperatorMetricGroup(counters)
    group.gauge("watermarkLag", lambda: watermark_lag_ms(counters, 10_000))
    for emitted_ms, user in ((MIN_TIMESTAMP, {}), (9_400, {"watermarkLag": 600}), (MAX_TIMESTAMP, {})):
        counters.output_watermark = emitted_ms
        group.collect()
        assert counters.user == user
