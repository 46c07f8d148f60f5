"""The program: one source, two jobs on it, and the late reports of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.datastream.data_stream import DataStream
from penstock.datastream.execution_mode import RuntimeExecutionMode
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock_examples.flights import aircraft, airports
from penstock_examples.flights.flights import FEEDS, Reports
from penstock_examples.flights.source import FlightSource, watermark_strategy

SOURCE = "flights of 2013"

WINDOW = "window"
KNOCK_ON = "knock-on or log"
LATE_FOR_WINDOWS = "late for windows"
LATE_FOR_AIRCRAFT = "late for aircraft"
WITHOUT_AIRCRAFT = "without aircraft"


@dataclass(frozen=True)
class Settings:
    """Settings of the program."""

    batched: bool
    parallelism: int
    bound_ms: int
    """Bound of out-of-orderness in milliseconds."""
    checkpoint_interval_ms: int = 0
    """0: no checkpoints."""
    reports_per_s: float = 0
    """0: no limit."""


def counts_by_feed(reports: Reports) -> dict[str, int]:
    """Return the number of reports per feed."""
    return {feed: reports.columns["feed"].count(feed) for feed in FEEDS}


def build(counts: Mapping[str, int], settings: Settings) -> DataStream[tuple[str, Any]]:
    """Return the stream of all results, each with its name."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH if settings.batched else RuntimeExecutionMode.STREAMING)
    env.set_parallelism(settings.parallelism)
    # A year in less than a minute: throughput counts, not the latency of single reports, so buffers may fill up.
    env.set_buffer_timeout(100)
    if settings.checkpoint_interval_ms:
        env.enable_checkpointing(settings.checkpoint_interval_ms)

    reports = (
        env.from_source(FlightSource(counts, settings.reports_per_s), watermark_strategy(settings.bound_ms), SOURCE)
        .set_parallelism(min(settings.parallelism, len(FEEDS)))
        .uid("flights")
    )
    windows = airports.airport_windows(reports)
    followed = aircraft.follow_aircraft(reports.filter(lambda report: report.tailnum is not None))
    streams: dict[str, DataStream[Any]] = {
        WINDOW: windows,
        KNOCK_ON: followed,
        LATE_FOR_WINDOWS: windows.get_side_output(airports.TOO_LATE),
        LATE_FOR_AIRCRAFT: followed.get_side_output(aircraft.TOO_LATE),
        WITHOUT_AIRCRAFT: reports.filter(lambda report: report.tailnum is None),
    }
    first, *others = [_named(name, stream) for name, stream in streams.items()]
    return first.union(*others)


def _named(name: str, stream: DataStream[Any]) -> DataStream[tuple[str, Any]]:
    return stream.map(lambda value: (name, value)).name(name)
