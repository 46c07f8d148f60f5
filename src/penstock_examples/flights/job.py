"""The program: one source, two jobs on it, and what is late in either."""

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
    """How the program is to run."""

    batched: bool
    parallelism: int
    bound_ms: int
    """For how long reports out of order are waited for."""
    checkpoint_interval_ms: int = 0
    """0: no checkpoints."""
    reports_per_s: float = 0
    """0: as fast as it goes."""


def counts_by_feed(reports: Reports) -> dict[str, int]:
    """How many of the reports belong to each feed."""
    return {feed: reports.columns["feed"].count(feed) for feed in FEEDS}


def build(counts: Mapping[str, int], settings: Settings) -> DataStream[tuple[str, Any]]:
    """The stream of all results, each with its name."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH if settings.batched else RuntimeExecutionMode.STREAMING)
    env.set_parallelism(settings.parallelism)
    # A year in less than a minute: nobody waits for a single report, so buffers may take the time to fill.
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
