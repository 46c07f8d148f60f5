"""The programs of `benchmarks/patterns.py` on penstock and on Flink in Java, one beside the other.

python -m benchmarks.patterns_beside_flink --only two-steps,columns

Both make the same events, and must find as many matches. There are two subtasks, state is on the heap, and there are no
checkpoints. An event costs the CPU time that a run over all events takes more than one over a quarter of them; two
cores process as many as fit into two seconds of it. Writes build/bench-patterns.json and build/bench-patterns.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.nexmark_beside_flink import cost
from benchmarks.patterns import MATCH_RECOGNIZE, PROGRAMS, made_by
from benchmarks.peers.environments import NotThereError
from benchmarks.peers.flink_patterns import run as run_in_flink
from benchmarks.yardstick import records_per_s

ROOT = Path(__file__).parents[1]
_SECONDS = 3_600


class Size(NamedTuple):
    """The number of events on either side, and the goals: records per second, and how many times Flink's rate.

    Where penstock gets four times as many, its short run is as long as Flink's long one: their matches are compared.
    """

    penstock: int
    flink: int
    rate: int | None = None
    times: float | None = None


_SIZES = {
    "two-steps": Size(8_000_000, 2_000_000, 2_500_000, 8),
    "columns": Size(8_000_000, 2_000_000, 2_500_000, 8),
    "everything": Size(4_000_000, 1_000_000, 800_000, 3),
    "loop": Size(2_000_000, 500_000, 250_000, 3),
    "dense": Size(2_000_000, 500_000, 300_000, 3),
    "strict": Size(2_000_000, 500_000),
    # With so few events fewer partial matches are open than in penstock's run, where an event costs Flink even more.
    "open": Size(1_000_000, 4_000, 300_000),
    "match-10": Size(2_000_000, 500_000),
    "match-100": Size(2_000_000, 500_000),
    "match-1000": Size(4_000_000, 1_000_000),
}
_GROWS = ("match-10", "match-100", "match-1000")
_GROWS_MOST = 1.5
Figures = Mapping[str, Any]


def of_penstock(program: str, events: int) -> dict[str, Any]:
    """Return the figures of a program, or an error."""
    command = [sys.executable, "-m", "benchmarks.patterns_bounded", program, "--events", str(events)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=_SECONDS, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"error": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    found = json.loads(lines[-1])
    matches = {str(events // 4): found["short"]["matches"], str(events): found["long"]["matches"]}
    return {**cost(found, events), "matches": matches}


def of_flink(program: str, events: int) -> dict[str, Any]:
    """Return the figures of a program, or an error."""
    made = made_by(program)
    statement = None if made.match_rows is None else MATCH_RECOGNIZE
    counts = [events // 4, events // 4, events]
    try:
        answers = run_in_flink(
            program, counts, made.kinds, keys=made.keys, match_rows=made.match_rows, statement=statement
        )
    except (RuntimeError, NotThereError) as error:
        return {"error": str(error)[-500:]}
    matches = {str(count): answer["matches"] for count, answer in zip(counts, answers, strict=True)}
    return {**cost({"short": answers[1], "long": answers[2]}, events), "matches": matches}


def row_of(program: str) -> dict[str, Any]:
    """Return the figures of both, and whether they found the same."""
    size = _SIZES[program]
    ours = of_penstock(program, size.penstock)
    flinks = of_flink(program, size.flink)
    found, expected = ours.get("matches", {}), flinks.get("matches", {})
    agree = [found[count] == expected[count] for count in found if count in expected]
    return {"program": program, "penstock": ours, "flink": flinks, "agree": all(agree) if agree else None}


def table_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures as a table in Markdown."""
    lines = [
        "| program | penstock, µs of CPU an event | Flink | penstock, events/s | goal | Flink | times Flink | goal "
        "| same matches |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        ours, flinks, size = row["penstock"], row["flink"], _SIZES[row["program"]]
        times = ""
        if all(figures.get("cpu_us", 0) > 0 for figures in (ours, flinks)):
            times = f"{flinks['cpu_us'] / ours['cpu_us']:.1f}"
        same = {True: "yes", False: "NO", None: "not compared"}[row["agree"]]
        lines.append(
            f"| {row['program']} | {_cpu(ours)} | {_cpu(flinks)} | {_rate(ours)} | {_goal(size.rate)} "
            f"| {_rate(flinks)} | {times} | {_goal(size.times)} | {same} |"
        )
    growth = _growth(rows)
    if growth is not None:
        lines += ["", f"MATCH_RECOGNIZE, time per row from the cheapest to the dearest length: {growth:.2f} times "]
        lines[-1] += f"(goal: at most {_GROWS_MOST})"
    return "\n".join(lines) + "\n"


def _growth(rows: Sequence[Mapping[str, Any]]) -> float | None:
    found = [row["penstock"].get("cpu_us", 0) for row in rows if row["program"] in _GROWS]
    return max(found) / min(found) if len(found) == len(_GROWS) and min(found) > 0 else None


def _cpu(figures: Figures) -> str:
    return "failed" if "error" in figures else f"{figures['cpu_us']:.2f}"


def _rate(figures: Figures) -> str:
    return f"{2e6 / figures['cpu_us']:,.0f}" if figures.get("cpu_us", 0) > 0 else ""


def _goal(goal: float | None) -> str:
    return "" if goal is None else f"{goal:,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PROGRAMS), help="programs, separated by commas")
    arguments = parser.parse_args()
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    yardstick, rows = records_per_s(), []
    for program in arguments.only.split(","):
        rows.append(row_of(program))
        print(json.dumps(rows[-1]), flush=True)
        document = {"yardstick_per_s": yardstick, "rows": rows}
        (build / "bench-patterns.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
        (build / "bench-patterns.md").write_text(table_of(rows), encoding="utf-8")
    print(table_of(rows))


if __name__ == "__main__":
    main()
