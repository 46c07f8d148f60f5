"""Results: the runs of each measurement, their medians, and whether goals are reached."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.comparisons import COMPARISONS, Comparison
from benchmarks.goals import Bound, Goal, Measurement
from benchmarks.yardstick import REFERENCE_PER_S


@dataclasses.dataclass(frozen=True)
class Run:
    """The figures of one run, and the yardstick (records/s) right before it. Without figures `error` has the reason."""

    figures: dict[str, float]
    yardstick_per_s: float
    error: str | None = None


@dataclasses.dataclass(frozen=True)
class Row:
    """A figure of the report. `scale`: speed of this machine relative to the reference machine."""

    item: int
    name: str
    goal: Goal
    value: float | None
    scale: float
    spread: tuple[float, float] | None = None
    error: str | None = None

    @property
    def share(self) -> float | None:
        """Share of the yardstick: for rates of records or bytes only."""
        if self.value is None or not self.goal.scaled or self.goal.bound is Bound.AT_MOST:
            return None
        return self.value / (self.scale * REFERENCE_PER_S)

    @property
    def to_reach_here(self) -> float | None:
        """The goal scaled to this machine."""
        goal = self.goal
        if goal.to_reach is None or not goal.scaled:
            return goal.to_reach
        return goal.to_reach * self.scale if goal.bound is Bound.AT_LEAST else goal.to_reach / self.scale

    @property
    def reached(self) -> bool | None:
        """None if there is no goal, or no measurement."""
        to_reach = self.to_reach_here
        if to_reach is None or self.value is None:
            return None
        return self.value >= to_reach if self.goal.bound is Bound.AT_LEAST else self.value <= to_reach


def rows_of(measured: list[tuple[Measurement, list[Run]]]) -> list[Row]:
    """Return a row for each figure, then those that compare two."""
    rows = [row for measurement, runs in measured for row in _rows(measurement, runs)]
    known = {(row.item, row.name, row.goal.figure): row for row in rows}
    rows += [row for comparison in COMPARISONS for row in _compared(comparison, known)]
    return sorted(rows, key=lambda row: row.item)


def _rows(measurement: Measurement, runs: list[Run]) -> list[Row]:
    good = [run for run in runs if run.error is None]
    if not good:
        error = runs[-1].error if runs else "not run"
        return [Row(measurement.item, measurement.name, measurement.goals[0], None, 1.0, error=error)]
    scale = statistics.median(run.yardstick_per_s for run in good) / REFERENCE_PER_S
    rows = []
    for goal in measurement.goals:
        values = [run.figures[goal.figure] for run in good]
        spread = min(values), max(values)
        rows.append(Row(measurement.item, measurement.name, goal, statistics.median(values), scale, spread))
    return rows


def _compared(comparison: Comparison, known: dict[tuple[int, str, str], Row]) -> list[Row]:
    of = known.get((comparison.item, comparison.of, comparison.figure))
    against = known.get((comparison.item, comparison.against, comparison.figure))
    if of is None or against is None or of.value is None or against.value is None:
        return []
    value = of.value / against.value if comparison.how == "ratio" else of.value - against.value
    return [Row(comparison.item, comparison.name, comparison.goal, value, of.scale)]


def machine() -> dict[str, Any]:
    """Describe the machine and the time of the measurement."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def write_json(path: Path, about: dict[str, Any], measured: list[tuple[Measurement, list[Run]]]) -> None:
    """Write all runs with all their figures; `judged` contains the rows of the table."""
    content = {
        **about,
        "arguments": sys.argv[1:],
        "measurements": [
            {
                "item": measurement.item,
                "name": measurement.name,
                "program": measurement.program,
                "options": measurement.options,
                "runs": [dataclasses.asdict(run) for run in runs],
            }
            for measurement, runs in measured
        ],
        "judged": [
            {
                "item": row.item,
                "name": row.name,
                "figure": row.goal.figure,
                "unit": row.goal.unit,
                "value": row.value,
                "share_of_yardstick": row.share,
                "to_reach": row.goal.to_reach,
                "to_reach_here": row.to_reach_here,
                "reached": row.reached,
            }
            for row in rows_of(measured)
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
