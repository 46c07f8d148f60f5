"""Two checkouts of penstock by turns: has a change cost anything?

    git worktree add ../before <commit>
    python -m benchmarks.by_turns ../before --only 1,3,6 --runs 5

Both run with the Python, and so with the Spark, that runs this. Prints the medians of both, their ratio, and all runs.
Nothing is asserted.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import catalogue
from benchmarks.goals import Measurement
from benchmarks.run import command, output_of

_ROOT = Path(__file__).resolve().parent.parent
_MARGIN_S = 300
_PARTS = {"python_ns_per_record", "jvm_ns_per_record"}
_CPU = "cpu_ns_per_record"


def run(checkout: Path, measurement: Measurement) -> dict[str, float]:
    """Run a measurement's program in a checkout. Returns its figures. Raises ChildProcessError if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    timeout_s = measurement.seconds + measurement.warm_up + _MARGIN_S
    output, _ = output_of(command(measurement, quick=False), timeout_s, checkout, environment)
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    if figures.keys() >= _PARTS:
        figures[_CPU] = sum(figures[part] for part in _PARTS)
    return figures


def table(
    measurements: Sequence[Measurement], before: list[list[dict[str, float]]], after: list[list[dict[str, float]]]
) -> str:
    """Medians of each figure that has a goal, and of CPU per record, as a table in Markdown."""
    lines = [
        "| item | measurement | figure | before | after | ratio | all runs |",
        "| ---: | --- | --- | ---: | ---: | ---: | --- |",
    ]
    for measurement, old_runs, new_runs in zip(measurements, before, after, strict=True):
        for name in [*(goal.figure for goal in measurement.goals), _CPU]:
            old = [figures[name] for figures in old_runs if name in figures]
            new = [figures[name] for figures in new_runs if name in figures]
            if old and new:
                middle, now = statistics.median(old), statistics.median(new)
                ratio = f"{now / middle:.2f}" if middle else ""
                runs = f"{' '.join(map(_number, old))} against {' '.join(map(_number, new))}"
                lines.append(
                    f"| {measurement.item} | {measurement.name} | {name} | {_number(middle)} | {_number(now)} "
                    f"| {ratio} | {runs} |"
                )
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def main() -> None:
    """Run the chosen items, one turn of each after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("--only", metavar="ITEMS", required=True, help="such as 1,3,6")
    parser.add_argument("--named", metavar="TEXT", default="", help="only measurements with this in their name")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=int, help="of measurement, in place of each item's own")
    parser.add_argument("--warm-up", type=int, help="in seconds, in place of each item's own")
    arguments = parser.parse_args()
    items = {int(item) for item in arguments.only.split(",")}
    measurements = [
        dataclasses.replace(m, seconds=arguments.seconds or m.seconds, warm_up=arguments.warm_up or m.warm_up)
        for m in catalogue.MEASUREMENTS
        if m.item in items and not m.large and arguments.named in m.name
    ]
    checkouts = (arguments.before.resolve(), _ROOT)
    figures: tuple[list[list[dict[str, float]]], ...] = tuple([[] for _ in measurements] for _ in checkouts)
    for turn in range(arguments.runs):
        for index, measurement in enumerate(measurements):
            # Who begins alternates, because a machine may be slower in each second run.
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                try:
                    figures[which][index].append(run(checkouts[which], measurement))
                except (ChildProcessError, json.JSONDecodeError, IndexError) as error:
                    print(f"{checkouts[which]}: item {measurement.item}, {measurement.name}: {error}", file=sys.stderr)
        print(f"after {turn + 1} of {arguments.runs} turns\n{table(measurements, *figures)}\n", flush=True)


if __name__ == "__main__":
    main()
