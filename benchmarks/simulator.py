"""The simulator with many subtasks: events per second, and duration of a job with n subtasks. Part of item 14.

source → map → map → sink, unchained, ten records for each subtask of the source, one run with a quiet schedule.
"""

from __future__ import annotations

import argparse
import time

from benchmarks.measurement import tell
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.programs import Node, Program, SplitScript
from penstock.hosts.simulator.runs import run_program

_VERTICES = 4
_RECORDS = 10


def program(parallelism: int) -> Program:
    """Four vertices in a row."""
    scripts = [
        SplitScript(name, index, tuple(((name, (n,), n, n), n) for n in range(_RECORDS)))
        for index, name in enumerate(f"split-{index}" for index in range(parallelism))
    ]
    settings = {"splits": scripts, "watermarks": "none"}
    nodes = (
        Node(0, "source", (), parallelism, settings),
        Node(1, "map", (0,), parallelism, {"amount": 1}),
        Node(2, "map", (1,), parallelism, {"amount": 1}),
        Node(3, "write", (2,), parallelism),
    )
    return Program(nodes, chaining=False)


def main() -> None:
    """Measure, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--subtasks", type=int, default=100, help="a multiple of 4")
    subtasks = parser.parse_args().subtasks
    began = time.perf_counter()
    outcome = run_program(program(subtasks // _VERTICES), Circumstances(), seed=1)
    took_s = time.perf_counter() - began
    tell({"seconds": took_s, "events": outcome.steps, "events_per_s": outcome.steps / took_s})


if __name__ == "__main__":
    main()
