"""`make bench`: run the measurements several times, each in its own processes; print medians and write them as JSON.

    python benchmarks/run.py                   all items, three runs of each: several hours
    python benchmarks/run.py --only 1,3,6      selected items
    python benchmarks/run.py --quick           one short run of each, as a smoke test; the figures are not meaningful

Nothing is asserted: missed goals are printed as missed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(_ROOT))

from rich.console import Console  # noqa: E402

from benchmarks import catalogue, charts, report  # noqa: E402
from benchmarks.goals import Measurement  # noqa: E402
from benchmarks.own_processes import own_processes  # noqa: E402
from benchmarks.results import Run, machine, rows_of, write_json  # noqa: E402

_RESULTS = _ROOT / "benchmarks" / "results"
_IMAGES = _ROOT / "docs" / "images"
_QUICK_SECONDS = 5
_QUICK_WARM_UP = 3
_MARGIN_S = 900
_ERROR_LINES = 3
# Width of the output if it is not a terminal.
_WIDTH = 150


def command(measurement: Measurement, quick: bool) -> list[str]:
    """Return the command that starts a measurement's program."""
    words = [sys.executable, "-m", f"benchmarks.{measurement.program}", *measurement.options]
    if quick:
        words += measurement.quick_options
    if measurement.steady:
        seconds = min(measurement.seconds, _QUICK_SECONDS) if quick else measurement.seconds
        warm_up = _QUICK_WARM_UP if quick else measurement.warm_up
        words += ["--seconds", str(seconds), "--warm-up", str(warm_up)]
    return words


def run_once(measurement: Measurement, quick: bool) -> Run:
    """Measure the yardstick, then run the program, and kill processes that it leaves behind."""
    yardstick = output_of([sys.executable, "-m", "benchmarks.yardstick"], 120)[0]
    per_s = json.loads(yardstick)["records_per_s"]
    try:
        output, errors = output_of(command(measurement, quick), measurement.seconds + measurement.warm_up + _MARGIN_S)
        return Run(json.loads(output.splitlines()[-1]), per_s)
    except subprocess.TimeoutExpired:
        return Run({}, per_s, "it did not end in time")
    except (ChildProcessError, json.JSONDecodeError, IndexError) as error:
        return Run({}, per_s, str(error) or errors)


def output_of(
    words: list[str], timeout_s: float, directory: Path = _ROOT, environment: dict[str, str] | None = None
) -> tuple[str, str]:
    """Return standard output and error of a command. Raises ChildProcessError if it fails."""
    with (
        own_processes() as mark,
        subprocess.Popen(
            words,
            cwd=directory,
            env={**(environment or os.environ), **mark},
            text=True,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise ChildProcessError(" ".join(errors.strip().splitlines()[-_ERROR_LINES:]))
    return output, errors


def options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="ITEMS", help="such as 1,3,6")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one short run of each")
    parser.add_argument(
        "--images", type=Path, default=_IMAGES, help="where pictures of items 8, 14 and 17 go (not --quick)"
    )
    parser.add_argument("--large", action="store_true", help="also state of 10 GB, which takes 40 GB of disk")
    parser.add_argument("--list", action="store_true", help="show what would be run")
    arguments = parser.parse_args()
    try:
        arguments.items = {int(item) for item in arguments.only.split(",")} if arguments.only else set(catalogue.TITLES)
    except ValueError:
        parser.error(f"--only takes numbers of items such as 1,3,6, not {arguments.only!r}")
    if unknown := arguments.items - set(catalogue.TITLES):
        parser.error(f"there are items 1 to {max(catalogue.TITLES)}, not {sorted(unknown)}")
    return arguments


def main() -> None:
    """Run the selected items."""
    arguments = options()
    # A terminated run kills its processes too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    chosen = [m for m in catalogue.MEASUREMENTS if m.item in arguments.items and (arguments.large or not m.large)]
    if arguments.list:
        for measurement in chosen:
            words = " ".join(command(measurement, arguments.quick)[2:])
            console.print(f"{measurement.item:>2}  {measurement.name:<32} {words}", soft_wrap=True)
        return
    about = machine()
    path = _RESULTS / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}{'-quick' * arguments.quick}.json"
    measured: list[tuple[Measurement, list[Run]]] = []
    for number, measurement in enumerate(chosen, start=1):
        count = 1 if arguments.quick else min(arguments.runs, measurement.runs_max or arguments.runs)
        runs: list[Run] = []
        measured.append((measurement, runs))
        for index in range(count):
            place = f"{number} of {len(chosen)}, run {index + 1} of {count}"
            with console.status(f"{place}: item {measurement.item}, {measurement.name}"):
                runs.append(run_once(measurement, arguments.quick))
        # Write after each measurement: an interruption must not lose hours of results.
        write_json(path, about, measured)
        for row in rows_of([(measurement, runs)])[:1]:
            console.print(f"{row.item:>2}  {row.name:<32} {row.error or report.number(row.value or 0)} {row.goal.unit}")
    rows = rows_of(measured)
    report.show(rows, console)
    path.with_suffix(".md").write_text(report.as_markdown(rows), encoding="utf-8")
    console.print(f"\n{about['processor']}, {about['cores']} cores, load {about['load']:.1f} at the start")
    console.print(f"{path.relative_to(_ROOT)} and .md")
    if arguments.items & {8, 14, 17} and not arguments.quick:
        for image in charts.draw(json.loads(path.read_text(encoding="utf-8")), arguments.images):
            console.print(str(image))


if __name__ == "__main__":
    main()
