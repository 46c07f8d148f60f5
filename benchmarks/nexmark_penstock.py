"""One Nexmark query on penstock, over two numbers of events: CPU time and wall clock, as JSON.

python -m benchmarks.nexmark_penstock q0 --events 2000000 [--mini-batch]

The first run, over a quarter, is not counted: Spark, workers and the planner start in it.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.nexmark_sql import VIEWS, events_table, insertion
from benchmarks.process_tree import cpu_of_each
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.table import StreamTableEnvironment

MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
}
"""The configuration that Nexmark publishes."""
RATE = "10000000"
"""Events in a second of their time, as in Nexmark's own runs."""
_SAMPLE_S = 0.1


class Cpu:
    """CPU time of this process and all that it has started, those that have ended included."""

    def __init__(self) -> None:
        self._of: dict[int, float] = {}

    def sample(self) -> float:
        """Return the total (s)."""
        for pid, seconds in cpu_of_each().items():
            self._of[pid] = max(seconds, self._of.get(pid, 0.0))
        return sum(self._of.values())

    @contextmanager
    def sampled(self) -> Iterator[None]:
        """Sample all the time: workers end with their job."""
        done = threading.Event()

        def run() -> None:
            while not done.wait(_SAMPLE_S):
                self.sample()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def run(name: str, events: int, options: dict[str, str]) -> None:
    """Run a query to its end."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration()).set_parallelism(2)
    tables = StreamTableEnvironment.create(env)
    for key, value in options.items():
        tables.get_config().set(key, value)
    rates = {"first-event.rate": RATE, "next-event.rate": RATE, "events.num": str(events)}
    for statement in (events_table({"connector": "nexmark", **rates}), *VIEWS):
        tables.execute_sql(statement)
    create, insert = insertion(name)
    tables.execute_sql(create)
    tables.execute_sql(insert).wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("query")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--mini-batch", action="store_true")
    arguments = parser.parse_args()
    options = MINI_BATCH if arguments.mini_batch else {}
    cpu, measured = Cpu(), []
    with cpu.sampled():
        for events in (arguments.events // 4, arguments.events // 4, arguments.events):
            cpu_s, wall_s = cpu.sample(), time.perf_counter()
            run(arguments.query, events, options)
            measured.append({"cpu_s": cpu.sample() - cpu_s, "wall_s": time.perf_counter() - wall_s})
    print(json.dumps({"name": arguments.query, "short": measured[1], "long": measured[2]}))


if __name__ == "__main__":
    main()
