"""Python functions in SQL, on penstock and on PyFlink, one after the other: rows a second, and CPU time of a row.

python -m benchmarks.python_functions --rows 40000000 --pyflink-rows 2000000

A function adds 1 to each number of `datagen`, into `blackhole`, with two subtasks: as a general function, which gets a
value at a time, and as a function on pandas. PyFlink runs it in processes and in threads (if it can here); the better
counts. A row costs what a run over all rows takes more than one over a quarter of them; both must differ by seconds, so
functions on pandas get more rows. PyFlink: see peers/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import PLACE
from benchmarks.process_tree import CpuTime

ROOT = Path(__file__).parents[1]
KINDS = ("general", "pandas")
_TIMES = {"general": 1, "pandas": 5}
"""How many times as many rows each kind gets on penstock."""
_MODES = ("process", "thread")
_PATIENCE = ("penstock.spark.start-timeout=20 min",)
"""On a machine so busy that Spark takes minutes to start, CPU times still mean something."""


def measured(python: str, package: str, kind: str, rows: int, options: Sequence[str] = ()) -> dict[str, float]:
    """Return wall clock and CPU time of a row (µs). Raises RuntimeError if the program fails."""
    command = [python, "-m", "benchmarks.peers.table_functions", package, kind, str(rows), *options]
    cpu, runs = CpuTime(), []
    with (
        cpu.sampled(),
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        before = 0.0
        for line in process.stdout:
            if line.startswith("{"):
                now = cpu.sample()
                runs.append({**json.loads(line), "cpu_s": now - before})
                before = now
        said = process.stderr.read()
    if process.returncode or len(runs) < 3:
        raise RuntimeError((said.strip().splitlines() or ["no output"])[-1])
    more = runs[2]["rows"] - runs[1]["rows"]
    return {f"{one}_us": (runs[2][f"{one}_s"] - runs[1][f"{one}_s"]) / more * 1e6 for one in ("wall", "cpu")}


def of_pyflink(kind: str, rows: int) -> dict[str, Any]:
    """Return the figures of the better mode, or the errors of both."""
    found: dict[str, Any] = {}
    errors = {}
    for mode in _MODES:
        try:
            figures = measured(
                str(PLACE / "pyflink" / "bin" / "python"),
                "pyflink",
                kind,
                rows,
                [f"python.execution-mode={mode}", "python.fn-execution.bundle.size=100000"],
            )
        except RuntimeError as error:
            errors[mode] = str(error)
            continue
        if not found or figures["wall_us"] < found["wall_us"]:
            found = {**figures, "mode": mode}
    return found or {"errors": errors}


def table_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures as a table in Markdown."""
    lines = [
        "| function | penstock, rows/s | PyFlink, rows/s | ratio | ratio of CPU time |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        ours, theirs = row["penstock"], row["pyflink"]
        if "errors" in theirs:
            lines.append(f"| {row['kind']} | {1e6 / ours['wall_us']:,.0f} | not executed | | |")
            continue
        ratios = [f"{theirs[one] / ours[one]:.1f}" for one in ("wall_us", "cpu_us")]
        rates = [f"{1e6 / of['wall_us']:,.0f}" for of in (ours, theirs)]
        lines.append(f"| {row['kind']} | {' | '.join([*rates, *ratios])} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000_000)
    parser.add_argument("--pyflink-rows", type=int, default=2_000_000)
    parser.add_argument("--only", default=",".join(KINDS))
    arguments = parser.parse_args()
    rows = []
    for kind in arguments.only.split(","):
        ours = measured(sys.executable, "penstock", kind, arguments.rows * _TIMES[kind], _PATIENCE)
        rows.append({"kind": kind, "penstock": ours, "pyflink": of_pyflink(kind, arguments.pyflink_rows)})
        print(json.dumps(rows[-1]), flush=True)
    print(table_of(rows))


if __name__ == "__main__":
    main()
