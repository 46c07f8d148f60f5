"""The charts of a job's page: its figures over time, and where the time of its checkpoints goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from penstock.common.text.markup import Markup, element
from penstock.common.text.quantities import as_duration, as_rate, as_size, is_live
from penstock.service.dashboard.chart_drawing import Chart, Column, Line, column_chart, time_chart

PHASES = ("start delay", "alignment", "sync", "async")
_LINES_MAX = 6
"""Most operators with a line of their own: pages.css has this many colors."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def job_charts(history: dict[str, Any], names: dict[str, str]) -> Markup:
    """Draw the samples of `/jobs/:id/history`, at least two. `names`: of the vertices, by id."""
    samples = history["samples"]
    times_ms = [one["timestamp"] for one in samples]
    restarts = _rises(samples, "restarts")
    rates = Chart(
        "Records per second",
        [
            Line("from sources", "c1", [one["records-in-per-second"] for one in samples]),
            Line("to sinks", "c2", [one["records-out-per-second"] for one in samples]),
        ],
        as_rate,
    )
    vertices = [names.get(id, id) for id in history["vertices"]]
    charts = [
        rates,
        _event_time(samples),
        Chart("Busy", _shares(samples, "busy", vertices), _as_percent, full=100.0),
        Chart("Back-pressured", _shares(samples, "back-pressured", vertices), _as_percent, full=100.0),
    ]
    drawn = [time_chart(chart, times_ms, restarts, "restart") for chart in charts if chart is not None]
    if any(one["checkpoint-size"] is not None or one["failed-checkpoints"] for one in samples):
        failed = _rises(samples, "failed-checkpoints")
        drawn += [time_chart(chart, times_ms, failed, "failed checkpoint") for chart in _checkpoints(samples)]
    return element("div", *drawn, cls="charts")


def _rises(samples: Sequence[dict[str, Any]], counter: str) -> list[int]:
    """Return the times at which a counter has grown."""
    return [after["timestamp"] for before, after in pairwise(samples) if after[counter] > before[counter]]


def _event_time(samples: Sequence[dict[str, Any]]) -> Chart | None:
    """Return the chart of the delay of event time, or of event time itself if the records are those of a replay."""
    known = [one for one in samples if one["watermark"] is not None]
    if not known:
        return None
    if is_live(known[-1]["timestamp"] - known[-1]["watermark"]):
        values = [None if one["watermark"] is None else one["timestamp"] - one["watermark"] for one in samples]
        return Chart("Event time behind the clock", [Line("at sinks", "c1", values)], as_duration)
    line = Line("at sinks", "c1", [one["watermark"] for one in samples])
    return Chart("Event time", [line], _as_date, from_zero=False)


def _as_date(ms: float) -> str:
    return (_EPOCH + timedelta(milliseconds=ms)).strftime("%Y-%m-%d %H:%M")


def _as_percent(value: float) -> str:
    return f"{value:.0f} %"


def _shares(samples: Sequence[dict[str, Any]], kind: str, names: Sequence[str]) -> list[Line]:
    """Return a line for each vertex; of many, for those with the highest shares. A vertex keeps its color."""
    means = [sum(one[kind][index] for one in samples) / len(samples) for index in range(len(names))]
    highest = sorted(range(len(names)), key=lambda index: -means[index])[:_LINES_MAX]
    return [
        Line(names[index], f"c{place % _LINES_MAX + 1}", [one[kind][index] for one in samples])
        for place, index in enumerate(sorted(highest))
    ]


def _checkpoints(samples: Sequence[dict[str, Any]]) -> list[Chart]:
    durations = [one["checkpoint-duration"] for one in samples]
    sizes = [one["checkpoint-size"] for one in samples]
    return [
        Chart("Duration of checkpoints", [Line("slowest", "c1", durations)], as_short_duration),
        Chart("Size of checkpoints", [Line("whole", "c1", sizes)], as_size),
    ]


def as_short_duration(ms: float) -> str:
    """Format a duration: below a second in milliseconds."""
    return f"{ms:.0f} ms" if ms < 1000 else as_duration(ms)


@dataclass(frozen=True)
class CheckpointPhases:
    """The phases of a checkpoint (ms), each of the subtask that took longest, and its sizes (bytes)."""

    id: int
    start_delay_ms: float
    alignment_ms: float
    sync_ms: float
    async_ms: float
    written: int
    whole: int

    @property
    def phases(self) -> tuple[float, ...]:
        """The durations, in the order of PHASES."""
        return self.start_delay_ms, self.alignment_ms, self.sync_ms, self.async_ms


def phases_of(checkpoint: dict[str, Any], vertices: Sequence[dict[str, Any]]) -> CheckpointPhases:
    """Return the times of a checkpoint. `vertices`: the answers to `/checkpoints/details/:n/subtasks/:vertex`."""
    summaries = [one["summary"] for one in vertices]
    return CheckpointPhases(
        id=checkpoint["id"],
        start_delay_ms=max((one["start_delay"]["max"] for one in summaries), default=0),
        alignment_ms=max((one["alignment"]["duration"]["max"] for one in summaries), default=0),
        sync_ms=max((one["checkpoint_duration"]["sync"]["max"] for one in summaries), default=0),
        async_ms=max((one["checkpoint_duration"]["async"]["max"] for one in summaries), default=0),
        written=checkpoint["checkpointed_size"],
        whole=checkpoint["state_size"],
    )


def checkpoints_chart(checkpoints: Sequence[CheckpointPhases], chosen: int) -> Markup:
    """Draw durations by phase, like figure 9 of Flink's State Management paper, and sizes, oldest first."""
    if not checkpoints:
        return Markup()
    durations = [Column(one.id, one.phases) for one in checkpoints]
    # Written bytes are a part of the whole: the other part is in files of earlier checkpoints.
    sizes = [Column(one.id, (one.written, max(0, one.whole - one.written))) for one in checkpoints]
    return element(
        "div",
        column_chart("Duration, by phase", PHASES, durations, label=as_short_duration, chosen=chosen),
        column_chart("Size", ("written", "reused"), sizes, label=as_size, chosen=chosen),
        cls="charts",
    )
