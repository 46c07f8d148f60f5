"""One program of `benchmarks/patterns.py` over two numbers of events: CPU time, wall clock and matches, as JSON.

python -m benchmarks.patterns_bounded two-steps --events 2000000

The first run, over a quarter, is not counted: Spark and its workers start in it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.patterns import PROGRAMS, matches
from benchmarks.process_tree import CpuTime
from penstock.api.sink import Sink, SinkContext, SinkWriter
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment


class CountSink(Sink[Any]):
    """Counts what comes, in a file for each subtask."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _CountWriter(Path(self._directory, f"{context.subtask}"))


class _CountWriter(SinkWriter[Any]):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0

    def write(self, value: Any, timestamp: int | None) -> None:
        self._count += 1

    def flush(self, end_of_input: bool) -> None:
        self._path.write_text(str(self._count), encoding="utf-8")


def run(program: str, events: int) -> int:
    """Run a program to its end. Returns how many matches it found."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration()).set_parallelism(2)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        matches(env, program, events).sink_to(CountSink(name))
        env.execute(program)
        return sum(int(path.read_text(encoding="utf-8")) for path in Path(name).iterdir())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--events", type=int, default=4_000_000)
    arguments = parser.parse_args()
    cpu, measured = CpuTime(), []
    with cpu.sampled():
        for events in (arguments.events // 4, arguments.events // 4, arguments.events):
            cpu_s, wall_s = cpu.sample(), time.perf_counter()
            found = run(arguments.program, events)
            measured.append({"cpu_s": cpu.sample() - cpu_s, "wall_s": time.perf_counter() - wall_s, "matches": found})
    print(json.dumps({"name": arguments.program, "short": measured[1], "long": measured[2]}))


if __name__ == "__main__":
    main()
