"""The charts of a job's page, as options of ECharts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PHASES = ("start delay", "alignment", "sync", "async")
_COLOURS = ("#b0b8c0", "#e0a030", "#d0503c", "#2a9d8f")
_SIZE_COLOUR = "#5b7fd0"
_UNITS = (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000), ("B", 1))


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


def checkpoints_chart(checkpoints: Sequence[CheckpointPhases]) -> dict[str, Any]:
    """Durations by phase as columns, sizes as lines, oldest first, like figure 9 of Flink's State Management paper."""
    bars = [
        {
            "name": name,
            "type": "bar",
            "stack": "time",
            "color": colour,
            "barMaxWidth": 26,
            "data": [round(one.phases[index], 1) for one in checkpoints],
        }
        for index, (name, colour) in enumerate(zip(PHASES, _COLOURS, strict=True))
    ]
    whole_most = max((one.whole for one in checkpoints), default=0)
    unit, divisor = next(((unit, size) for unit, size in _UNITS if whole_most >= size), _UNITS[-1])
    lines = [
        {
            "name": name,
            "type": "line",
            "yAxisIndex": 1,
            "color": _SIZE_COLOUR,
            "lineStyle": {"type": style},
            "symbolSize": 4,
            "data": [round(one / divisor, 3) for one in values],
        }
        for name, style, values in (
            ("written", "dashed", [one.written for one in checkpoints]),
            ("whole state", "solid", [one.whole for one in checkpoints]),
        )
    ]
    return {
        "animation": False,
        "tooltip": {"trigger": "axis", "confine": True},
        "legend": {"top": 0, "textStyle": {"color": "#8a929a"}},
        "grid": {"left": 8, "right": 8, "top": 52, "bottom": 4, "containLabel": True},
        "xAxis": {"type": "category", "data": [str(one.id) for one in checkpoints]},
        "yAxis": [
            {"type": "value", "name": "ms", "splitLine": {"lineStyle": {"opacity": 0.25}}},
            {"type": "value", "name": unit, "splitLine": {"show": False}},
        ],
        "series": [*bars, *lines],
    }
