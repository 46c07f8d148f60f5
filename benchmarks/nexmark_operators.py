"""What Nexmark's queries cost without Spark: CPU time of an event, in this process, with generator and exchanges.

python -m benchmarks.nexmark_operators --only q9,q20 --events 400000 [--defaults] [--chunk 10] [--profile 40]

The job runs in the simulator with large buffers and two subtasks. An event costs what a run over all events takes more
than one over a quarter of them. `--chunk`: the source gives so many events at a time, as one with a rate does: what a
chunk costs bounds latency. `--profile` prints the functions that take the most time in the longer run.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import time
from random import Random

from benchmarks.nexmark_penstock import MINI_BATCH, RATE
from benchmarks.nexmark_sql import QUERIES, VIEWS, events_table, insertion
from penstock.common import Configuration
from penstock.common.job_client import JobClient
from penstock.connectors.base.rate_limiter import RateLimiter, RateLimiterStrategy
from penstock.connectors.nexmark.configuration import NexmarkConfiguration
from penstock.connectors.nexmark.source import NexmarkSource
from penstock.datastream import StreamExecutionEnvironment
from penstock.hosts.simulator import Circumstances, Simulation, Trace
from penstock.service.client.executor import PipelineExecutor, Submission
from penstock.service.client.plan_executor import PlanExecutor
from penstock.table import StreamTableEnvironment
from penstock.table.connectors.table_connector import ScanRequest, TableConnector, TableScan, register_connector
from penstock.table.operators.table_columns import TableColumns

_LARGE = Circumstances(chunk_records=32_768, buffer_records=32_768, buffer_bytes=4 << 20, jump_rate=0.0)


class _Simulated(PipelineExecutor):
    """Runs a job to its end in the simulator, and keeps the CPU time that this took (s)."""

    def __init__(self, profile: cProfile.Profile | None) -> None:
        self.profile = profile
        self.cpu_s = 0.0

    def execute(self, submission: Submission) -> JobClient:
        """Run a job."""
        simulation = Simulation(submission.graph, Random(1), _LARGE, Trace(None))
        gc.collect()
        start = time.process_time()
        if self.profile is None:
            simulation.run()
        else:
            self.profile.runcall(simulation.run)
        self.cpu_s = time.process_time() - start
        if simulation.error is not None:
            raise simulation.error
        return PlanExecutor().execute(Submission(submission.graph, {}, Configuration(), None))


class _InChunks(RateLimiter):
    """Releases so many events at a time."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def due(self, now_ms: int) -> int:
        return self._rows

    def take(self, count: int) -> None:
        pass

    def next_due_ms(self) -> int:
        raise NotImplementedError("events are always due")


class _Chunks(RateLimiterStrategy):
    def __init__(self, rows: int) -> None:
        self._rows = rows

    def create_rate_limiter(self, parallelism: int, subtask: int) -> RateLimiter:
        return _InChunks(self._rows)


class _EventsInChunks(TableConnector):
    def __init__(self, events: int, rows: int) -> None:
        self._source = NexmarkSource(NexmarkConfiguration(event_rate=int(RATE)), events, _Chunks(rows))

    def scan(self, request: ScanRequest) -> TableScan:
        columns = TableColumns(request.schema)
        return TableScan(self._source.on_columns(columns), columns)


def source_options(events: int, chunk: int | None) -> dict[str, str]:
    """Return the options of the table of events."""
    if chunk is None:
        rates = {"first-event.rate": RATE, "next-event.rate": RATE}
        return {"connector": "nexmark", **rates, "events.num": str(events)}
    register_connector("events-in-chunks", _EventsInChunks(events, chunk))
    return {"connector": "events-in-chunks"}


def cpu_s(
    name: str,
    events: int,
    options: dict[str, str],
    *,
    chunk: int | None = None,
    profile: cProfile.Profile | None = None,
) -> float:
    """Run a query over so many events, and return the CPU time (s)."""
    executor = _Simulated(profile)
    tables = StreamTableEnvironment.create(StreamExecutionEnvironment(executor=executor).set_parallelism(2))
    for key, value in options.items():
        tables.get_config().set(key, value)
    for statement in (events_table(source_options(events, chunk)), *VIEWS, *insertion(name)):
        tables.execute_sql(statement)
    return executor.cpu_s


def us_per_event(
    name: str,
    events: int,
    options: dict[str, str],
    *,
    chunk: int | None = None,
    profile: cProfile.Profile | None = None,
) -> float:
    """Return the CPU time of an event (µs)."""
    cpu_s(name, events // 4, options, chunk=chunk)
    short = cpu_s(name, events // 4, options, chunk=chunk)
    long = cpu_s(name, events, options, chunk=chunk, profile=profile)
    return (long - short) / (events - events // 4) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--only", default=",".join(QUERIES), help="queries, separated by commas")
    parser.add_argument("--defaults", action="store_true", help="without mini-batch")
    parser.add_argument("--chunk", type=int, metavar="EVENTS", help="events that the source gives at a time")
    parser.add_argument("--profile", type=int, metavar="N", help="print the N functions that take the most time")
    arguments = parser.parse_args()
    options = {} if arguments.defaults else MINI_BATCH
    for name in arguments.only.split(","):
        profile = cProfile.Profile() if arguments.profile else None
        cost = us_per_event(name, arguments.events, options, chunk=arguments.chunk, profile=profile)
        print(f"{name:4} {'defaults' if arguments.defaults else 'mini-batch':10} {cost:7.2f} µs", flush=True)
        if profile is not None:
            pstats.Stats(profile).sort_stats("tottime").print_stats(arguments.profile)


if __name__ == "__main__":
    main()
