"""One Nexmark query on penstock, over two numbers of events: CPU time and wall clock, as JSON.

python -m benchmarks.nexmark_penstock q0 --events 2000000 [--mini-batch]

The first two runs, over a quarter, are not counted: Spark, workers and the planner start in them, and the JVM
compiles what it runs.
"""

from __future__ import annotations

import argparse
import json
import time

from benchmarks.nexmark_sql import QUERIES, VIEWS, events_table, insertion
from benchmarks.process_tree import CpuTime
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


def run(name: str, events: int, options: dict[str, str]) -> None:
    """Run a query to its end."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration()).set_parallelism(2)
    tables = StreamTableEnvironment.create(env)
    for key, value in options.items():
        tables.get_config().set(key, value)
    rates = {"first-event.rate": RATE, "next-event.rate": RATE, "events.num": str(events)}
    for statement in (events_table({"connector": "nexmark", **rates}), *VIEWS, *QUERIES[name].setup):
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
    cpu, measured = CpuTime(), []
    with cpu.sampled():
        for events in (*[arguments.events // 4] * 3, arguments.events):
            cpu_s, wall_s = cpu.sample(), time.perf_counter()
            run(arguments.query, events, options)
            measured.append({"cpu_s": cpu.sample() - cpu_s, "wall_s": time.perf_counter() - wall_s})
    print(json.dumps({"name": arguments.query, "short": measured[-2], "long": measured[-1]}))


if __name__ == "__main__":
    main()
