"""Charts of the documentation, drawn from a file of results. The output is deterministic.

python -m benchmarks.charts benchmarks/results/<file>.json docs/images
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import catalogue

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = list[tuple[float, float]]
_INK = "#1f4e79"
_SECOND_INK = "#b5651d"
_THIRD_INK = "#4f7d3a"
_MILLION = 1e6


class Results:
    """Medians by item, name and figure."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._runs = {
            (measurement["item"], measurement["name"]): [run for run in measurement["runs"] if not run["error"]]
            for measurement in content["measurements"]
        }

    def points(self, item: int, name: str, xs: tuple[int, ...], figure: str, scale: float = 1) -> Points:
        """Return (x, median / scale) of the measurements that ran and whose name is `name` with x in its braces."""
        runs = {x: self._runs.get((item, name.format(x)), []) for x in xs}
        return [(x, statistics.median(run["figures"][figure] for run in of) / scale) for x, of in runs.items() if of]


def draw(content: dict[str, Any], directory: Path) -> list[Path]:
    """Draw the charts for which there are results."""
    import matplotlib as mpl

    mpl.use("svg")
    # The salt makes ids in the file deterministic; text is kept as text.
    mpl.rcParams.update({"svg.hashsalt": "penstock", "svg.fonttype": "none", "font.size": 9})
    results = Results(content)
    directory.mkdir(parents=True, exist_ok=True)
    drawn = [
        _buffer_timeouts(results, directory / "buffer-timeout.svg"),
        _scaling(results, directory / "scaling.svg"),
        _snapshots(results, directory / "snapshots.svg"),
    ]
    return [path for path in drawn if path is not None]


def _buffer_timeouts(results: Results, path: Path) -> Path | None:
    import matplotlib.pyplot as plt

    timeouts = catalogue.BUFFER_TIMEOUTS_MS
    latency = results.points(8, "latency, {} ms", timeouts, "p99_ms")
    median = results.points(8, "latency, {} ms", timeouts, "p50_ms")
    throughput = results.points(8, "throughput, {} ms", timeouts, "records_per_s", _MILLION)
    if not latency or not throughput:
        return None
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    _curve(left, latency, "buffer timeout, ms", "latency at 20,000 records/s, ms", label="99th percentile")
    _curve(left, median, colour=_SECOND_INK, label="median")
    left.legend(frameon=False)
    _curve(right, throughput, "buffer timeout, ms", "throughput, million records/s")
    for axes in (left, right):
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xticks(timeouts, [str(timeout) for timeout in timeouts])
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path


def _scaling(results: Results, path: Path) -> Path | None:
    import matplotlib.pyplot as plt

    def of(name: str, xs: tuple[int, ...], figure: str, scale: float = 1) -> Points:
        return results.points(14, name, xs, figure, scale)

    rate = "million records/s"
    panels = [
        ("parallelism", rate, of("parallelism {}", catalogue.CURVE_PARALLELISMS, "records_per_s", _MILLION)),
        ("exchanges", rate, of("exchanges {}", catalogue.CURVE_STAGES, "records_per_s", _MILLION)),
        ("keys", rate, of("keys {:,}", catalogue.CURVE_KEYS, "records_per_s", _MILLION)),
        ("bytes of a record", "MB/s", of("record of {:,} B", catalogue.CURVE_BYTES, "mb_per_s")),
        (
            "subtasks",
            "job master, cores",
            of("job master, {:,} subtasks", catalogue.CURVE_SUBTASKS, "job_master_cores"),
        ),
        ("subtasks", "simulator, s", of("simulator, {:,} subtasks", catalogue.CURVE_SUBTASKS, "seconds")),
    ]
    if not any(points for _, _, points in panels):
        return None
    figure, grid = plt.subplots(2, 3, figsize=(9, 5.4), layout="constrained")
    for axes, (x, y, points) in zip(grid.flat, panels, strict=True):
        if points:
            _curve(axes, points, x, y)
        if x in ("keys", "bytes of a record"):
            axes.set_xscale("log")
        axes.set_ylim(bottom=0)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path


def _snapshots(results: Results, path: Path) -> Path | None:
    """Like figures 9a to 9c of the State Management paper: by size of state, and by parallelism."""
    import matplotlib.pyplot as plt

    sizes, parallelisms = catalogue.STATE_SIZES_MB, catalogue.STATE_PARALLELISMS
    duration = {n: results.points(17, f"{{:,}} MB, parallelism {n}", sizes, "full_s") for n in parallelisms}
    if not all(duration.values()):
        return None
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
    for n, ink in zip(parallelisms, (_INK, _SECOND_INK, _THIRD_INK), strict=True):
        alignment = results.points(17, f"{{:,}} MB, parallelism {n}", sizes, "full_alignment_ms")
        _curve(left, duration[n], "state, MB", "full checkpoint, s", ink, f"parallelism {n}")
        _curve(middle, alignment, "state, MB", "alignment of the slowest task, ms", ink)
    for size, ink in zip(sizes[-3:], (_THIRD_INK, _SECOND_INK, _INK), strict=True):
        of_size = results.points(17, f"{size:,} MB, parallelism {{}}", parallelisms, "full_s")
        _curve(right, of_size, "parallelism", "full checkpoint, s", ink, f"{size:,} MB")
    right.set_xticks(parallelisms)
    left.legend(frameon=False)
    right.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path


def _curve(axes: Axes, points: Points, x: str = "", y: str = "", colour: str = _INK, label: str | None = None) -> None:
    axes.plot(*zip(*points, strict=True), marker="o", markersize=3.5, linewidth=1.2, color=colour, label=label)
    if x:
        axes.set_xlabel(x)
        axes.set_ylabel(y)
    # The top goes on following what is drawn.
    axes.set_ylim(bottom=0, auto=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)


def main() -> None:
    """Draw the charts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    for path in draw(json.loads(arguments.results.read_text(encoding="utf-8")), arguments.directory):
        print(path)


if __name__ == "__main__":
    main()
