"""Nexmark's queries on penstock and on Flink SQL in Java, one beside the other: `make bench-nexmark`.

python -m benchmarks.nexmark_beside_flink --events 2000000 --only q0,q5 --nexmark FOLDER

Both read the benchmark's generator and write into blackhole, with two subtasks on the heap and without checkpoints. An
event costs what a run over all events takes more than one over a quarter of them; queries that are cheap read five
times as many, as noise exceeds what they cost. `--nexmark`: a checkout of github nexmark/nexmark, whose generator Flink
reads; without it the repository is cloned. Writes build/bench-nexmark.json and the table build/bench-nexmark.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.nexmark_penstock import MINI_BATCH, RATE
from benchmarks.nexmark_sql import MEASURED, QUERIES, VIEWS, events_table, insertion
from benchmarks.peers.environments import PLACE, NotThereError, flink_home, prepare
from benchmarks.peers.flink_nexmark import run as run_in_flink
from benchmarks.yardstick import records_per_s

ROOT = Path(__file__).parents[1]
_REPOSITORY = "https://github.com/nexmark/nexmark.git"
_SOURCES = ("generator", "model", "source", "utils/NexmarkUtils.java", "NexmarkConfiguration.java")
FLINK = {
    "parallelism.default": "2",
    "taskmanager.numberOfTaskSlots": "2",
    "rest.port": "0",
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
    "taskmanager.memory.managed.size": "256m",
}
_SECONDS = 1_800
_CHEAP = frozenset({"q0", "q1", "q2", "q3", "q5", "q8", "q11", "q12", "q14", "q17", "q21", "q22"})
"""The queries that cost less than a microsecond of CPU an event."""
_CONFIGURATIONS = {"mini-batch": True, "defaults": False}
Figures = Mapping[str, Any]


def cost(figures: Figures, events: int) -> dict[str, float]:
    """Return CPU time and wall clock of an event (µs), from a run over a quarter of the events and one over all."""
    more = events - events // 4
    return {
        f"{kind}_us": (figures["long"][f"{kind}_s"] - figures["short"][f"{kind}_s"]) / more * 1e6
        for kind in ("cpu", "wall")
    }


def of_penstock(name: str, events: int, *, mini_batch: bool) -> dict[str, Any]:
    """Return the figures of a query, or an error."""
    command = [sys.executable, "-m", "benchmarks.nexmark_penstock", name, "--events", str(events)]
    done = subprocess.run(
        command + ["--mini-batch"] * mini_batch, capture_output=True, text=True, cwd=ROOT, timeout=_SECONDS, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"error": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    return cost(json.loads(lines[-1]), events)


def of_flink(name: str, events: int, generator: Path, *, mini_batch: bool) -> dict[str, Any]:
    """Return the figures of a query, or an error. The first two runs warm up, as in penstock."""
    create, insert = insertion(name)
    queries = []
    for number in (*[events // 4] * 3, events):
        rates = {"first-event.rate": RATE, "next-event.rate": RATE, "events.num": str(number)}
        setup = [events_table({"connector": "nexmark", **rates}), *VIEWS, *QUERIES[name].in_flink, create]
        queries.append({"name": name, "setup": setup, "insert": insert})
    options = {**FLINK, **(MINI_BATCH if mini_batch else {})}
    answers = list(run_in_flink(options, [], queries, jars=[generator]))
    for answer in answers:
        if "error" in answer:
            return {"error": answer["error"]}
    return cost({"short": answers[-2], "long": answers[-1]}, events)


def generator_of(checkout: str | None) -> Path:
    """Return the jar with Nexmark's own generator. Raises NotThereError without Git or a JDK."""
    jar = PLACE / "nexmark-generator.jar"
    if jar.exists():
        return jar
    prepare(["flink-java"])
    folder = Path(checkout) if checkout else PLACE / "nexmark"
    if not folder.is_dir():
        _run(["git", "clone", "--quiet", "--depth", "1", _REPOSITORY, str(folder)])
    main = folder / "nexmark-flink" / "src" / "main"
    package = main / "java" / "com" / "github" / "nexmark" / "flink"
    found = [file for one in _SOURCES for file in [package / one, *(package / one).rglob("*.java")]]
    sources = [str(file) for file in found if file.is_file()]
    classes = PLACE / "classes-nexmark"
    shutil.rmtree(classes, ignore_errors=True)
    home = flink_home()
    _run(["javac", "-nowarn", "--release", "17", "-d", str(classes), "-cp", f"{home / 'lib'}/*", *sources])
    shutil.copytree(main / "resources" / "META-INF", classes / "META-INF")
    _run(["jar", "cf", str(jar), "-C", str(classes), "."])
    return jar


def generator_or_exit(checkout: str | None) -> Path:
    """Return the jar with Nexmark's own generator, or end the program with the reason why it is missing."""
    try:
        return generator_of(checkout)
    except NotThereError as error:
        raise SystemExit(f"Flink can't be measured here: {error}") from None


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except OSError as error:
        raise NotThereError(f"{command[0]} can't be run: {error}") from None
    if done.returncode:
        raise NotThereError(f"{' '.join(command[:2])} failed: {(done.stdout + done.stderr).strip()[-800:]}")


def table_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures as a table in Markdown: CPU of an event, events a second on two cores, ratios to Flink."""
    lines = [
        "| query | configuration | penstock, µs of CPU an event | Flink | penstock, events/s | Flink | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    ratios: dict[str, list[float]] = {}
    for row in rows:
        ours, flinks = row["penstock"], row["flink"]
        cells = [_cell(ours, "cpu_us"), _cell(flinks, "cpu_us"), _rate(ours), _rate(flinks), ""]
        # Below some millions of events, noise may exceed what they cost.
        if all(figures.get("cpu_us", 0) > 0 for figures in (ours, flinks)):
            ratio = flinks["cpu_us"] / ours["cpu_us"]
            ratios.setdefault(row["configuration"], []).append(ratio)
            cells[-1] = f"{ratio:.2f}"
        lines.append(f"| {row['query']} | {row['configuration']} | {' | '.join(cells)} |")
    for configuration, found in ratios.items():
        mean = statistics.geometric_mean(found)
        lines.append(f"| geometric mean of {len(found)} | {configuration} | | | | | **{mean:.2f}** |")
    return "\n".join(lines) + "\n"


def _cell(figures: Figures, name: str) -> str:
    return "not executed" if "error" in figures else f"{figures[name]:.2f}"


def _rate(figures: Figures) -> str:
    return f"{2e6 / figures['cpu_us']:,.0f}" if figures.get("cpu_us", 0) > 0 else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--only", default=",".join(MEASURED), help="queries, separated by commas")
    parser.add_argument("--configuration", choices=_CONFIGURATIONS, help="one of the two; by default both")
    parser.add_argument("--nexmark", help="a checkout of github nexmark/nexmark")
    arguments = parser.parse_args()
    generator = generator_or_exit(arguments.nexmark)
    rows = []
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    yardstick = records_per_s()
    for name in arguments.only.split(","):
        for configuration, mini_batch in _CONFIGURATIONS.items():
            if arguments.configuration not in (None, configuration):
                continue
            events = arguments.events * (5 if name in _CHEAP else 1)
            ours = of_penstock(name, events, mini_batch=mini_batch)
            flinks = of_flink(name, events, generator, mini_batch=mini_batch)
            rows.append({"query": name, "configuration": configuration, "events": events})
            rows[-1].update({"penstock": ours, "flink": flinks})
            print(json.dumps(rows[-1]), flush=True)
            document = {"yardstick_per_s": yardstick, "rows": rows}
            (build / "bench-nexmark.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
            (build / "bench-nexmark.md").write_text(table_of(rows), encoding="utf-8")
    print(table_of(rows))


if __name__ == "__main__":
    main()
