"""Latency of Nexmark's queries at a steady rate, on penstock and on Flink SQL in Java, one after the other.

python -m benchmarks.nexmark_latency --rate 20000 --seconds 60 --only q0,q5,q20

Both sources keep a schedule that begins with their first event: event k is due `k / rate` later, by the clock of the
machine. Latency is how much later a row arrives behind the query than the event with its time was due; for q5 it counts
from the end of the window and the delay of the watermark on. Rows that are due in the first 15 s are not counted, nor
windows that only the end of the input ends. Two subtasks, state on the heap, no checkpoints, defaults (mini-batch would
wait for 2 s). Flink's source takes its events' times from the moment at which its table is created; so functions behind
it learn when the schedule of each subtask began.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import pyarrow
from pyarrow import compute

from benchmarks.nexmark_beside_flink import FLINK, generator_or_exit
from benchmarks.nexmark_sql import QUERIES, VIEWS, events_table
from benchmarks.peers.flink_nexmark import run as run_in_flink
from penstock.api.sink import Sink, SinkContext, SinkWriter
from penstock.common import Configuration
from penstock.connectors.base.rate_limiter import RateLimiter, RateLimiterStrategy
from penstock.connectors.nexmark.configuration import NexmarkConfiguration
from penstock.connectors.nexmark.source import NexmarkSource
from penstock.datastream import StreamExecutionEnvironment
from penstock.table import StreamTableEnvironment
from penstock.table.connectors.table_connector import (
    ScanRequest,
    SinkRequest,
    TableConnector,
    TableScan,
    TableSink,
    register_connector,
)
from penstock.table.operators.table_columns import TableColumns

_PAUSE_MS = 500
"""From the moment when all sources run to the first event."""
_WARMUP_MS = 15_000
"""From the first event to the first whose row is counted."""
_BASE_MS = 1_700_000_000_000
"""The time of the first event."""
_PARALLELISM = 2
_SHOWN = (50, 99, 99.9)
_QUERIES = {
    "q0": QUERIES["q0"].sql.replace("`dateTime`, extra", "extra, `dateTime`"),
    "q5": QUERIES["q5"].sql.replace("hot.bids FROM", "hot.bids, hot.e + INTERVAL '4' SECOND FROM"),
    "q20": QUERIES["q20"].sql.replace(", a.extra\n", ", a.extra, b.`dateTime`\n"),
}
"""The queries with the time of each row as last column."""
_FLINK_VIEWS = [
    view.replace("bid.extra\n", "bid.extra, due(bid.`dateTime`) AS due\n").replace(
        "event_type = 2", "event_type = 2 AND leaves_source(bid.`dateTime`)"
    )
    for view in VIEWS
]
_FLINK_QUERIES = {
    "q0": _QUERIES["q0"].replace("extra, `dateTime`", "extra, due"),
    "q5": _QUERIES["q5"].replace("hot.e + INTERVAL '4' SECOND", "begun(hot.e + INTERVAL '4' SECOND)"),
    "q20": _QUERIES["q20"].replace("a.extra, b.`dateTime`", "a.extra, b.due"),
}
"""With the time of the clock at which each row is due, which functions behind the source learn from its bids."""
_COLUMNS = {
    "q0": "auction BIGINT, bidder BIGINT, price BIGINT, extra STRING, at_time TIMESTAMP(3)",
    "q5": "auction BIGINT, bids BIGINT, at_time TIMESTAMP(3)",
    "q20": f"{QUERIES['q20'].columns}, at_time TIMESTAMP(3)",
}


class _OnSchedule(RateLimiter):
    """Releases events at their own times, however late. The first time is soon after all subtasks run.

    A subtask has every `parallelism`-th epoch of `epoch` events. Times are whole milliseconds, as in Flink.
    """

    def __init__(self, folder: str, parallelism: int, subtask: int, *, per_ms: float, epoch: int) -> None:
        self._folder, self._parallelism, self._subtask = Path(folder), parallelism, subtask
        self._per_ms, self._epoch = per_ms, epoch
        self._begun = self._folder / f"{subtask}.begun"
        self._start_ms: int | None = None
        self._asked_ms = 0
        self._taken = 0

    def due(self, now_ms: int) -> int:
        self._asked_ms = now_ms
        if self._start_ms is None:
            if not self._begun.exists():
                self._begun.write_text(str(now_ms), encoding="utf-8")
            self._start_ms = started_ms(self._folder, self._parallelism)
            if self._start_ms is None:
                return 0
        of_all = max(0, math.ceil((now_ms - self._start_ms + 1) * self._per_ms))
        rounds, rest = divmod(of_all, self._parallelism * self._epoch)
        of_round = min(max(0, rest - self._subtask * self._epoch), self._epoch)
        return rounds * self._epoch + of_round - self._taken

    def take(self, count: int) -> None:
        self._taken += count

    def next_due_ms(self) -> int:
        if self._start_ms is None:
            return self._asked_ms + 10
        epochs, place = divmod(self._taken, self._epoch)
        number = (epochs * self._parallelism + self._subtask) * self._epoch + place
        return self._start_ms + int(number / self._per_ms)


def started_ms(folder: Path, parallelism: int) -> int | None:
    """Return when the first event is due (ms since 1970); None: not all subtasks run."""
    begun = [file.read_text(encoding="utf-8") for file in folder.glob("*.begun")]
    if len(begun) < parallelism or not all(begun):
        return None
    return max(map(int, begun)) + _PAUSE_MS


class _Schedule(RateLimiterStrategy):
    def __init__(self, folder: str, configuration: NexmarkConfiguration) -> None:
        self._folder, self._configuration = folder, configuration

    def create_rate_limiter(self, parallelism: int, subtask: int) -> RateLimiter:
        per_ms, epoch = self._configuration.event_rate / 1000, self._configuration.epoch_events
        return _OnSchedule(self._folder, parallelism, subtask, per_ms=per_ms, epoch=epoch)


class _Events(TableConnector):
    def __init__(self, folder: str, rate: int, count: int) -> None:
        configuration = NexmarkConfiguration(event_rate=rate, base_time_ms=_BASE_MS)
        self._source = NexmarkSource(configuration, count, _Schedule(folder, configuration))

    def scan(self, request: ScanRequest) -> TableScan:
        columns = TableColumns(request.schema)
        return TableScan(self._source.on_columns(columns), columns)


class _Latencies(TableConnector):
    def __init__(self, folder: str, end_ms: int) -> None:
        self._sink = _LatencySink(folder, end_ms)

    def sink(self, request: SinkRequest) -> TableSink:
        return TableSink(self._sink)


class _LatencySink(Sink[Any]):
    def __init__(self, folder: str, end_ms: int) -> None:
        self.folder, self.end_ms = folder, end_ms

    def takes_columns(self, columns: Any) -> bool:
        return True

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _LatencyWriter(self, context.subtask)


class _LatencyWriter(SinkWriter[Any]):
    """Counts rows by their latency (ms), and writes the counts at the end."""

    def __init__(self, sink: _LatencySink, subtask: int) -> None:
        self._folder, self._end_ms = Path(sink.folder), sink.end_ms
        self._file = self._folder / f"{subtask}.json"
        self._start_ms: int | None = None
        self._counts: Counter[int] = Counter()

    def write(self, value: Any, timestamp: int | None) -> None:
        raise NotImplementedError

    def write_columns(self, batch: Any, timestamps: Any = None) -> None:
        now_ms = time.time_ns() // 1_000_000
        if self._start_ms is None:
            self._start_ms = started_ms(self._folder, _PARALLELISM)
            assert self._start_ms is not None, "a row has left a source before all of them ran"
        times = compute.cast(batch.column(batch.num_columns - 1), pyarrow.timestamp("ms")).view(pyarrow.int64())
        since_first_ms = times.to_numpy(zero_copy_only=False) - _BASE_MS
        counted = since_first_ms[(since_first_ms >= _WARMUP_MS) & (since_first_ms < self._end_ms)]
        ages, counts = numpy.unique(now_ms - self._start_ms - counted, return_counts=True)
        self._counts.update(dict(zip(ages.tolist(), counts.tolist(), strict=True)))

    def flush(self, end_of_input: bool) -> None:
        if end_of_input:
            self._file.write_text(json.dumps(self._counts), encoding="utf-8")


def of_penstock(name: str, rate: int, seconds: int) -> Counter[int]:
    """Return how many rows have each latency (ms)."""
    found: Counter[int] = Counter()
    with tempfile.TemporaryDirectory(prefix="nexmark-latency-") as folder:
        register_connector("events-on-schedule", _Events(folder, rate, rate * seconds))
        register_connector("latencies", _Latencies(folder, seconds * 1000))
        env = StreamExecutionEnvironment.get_execution_environment(Configuration()).set_parallelism(_PARALLELISM)
        tables = StreamTableEnvironment.create(env)
        for statement in (events_table({"connector": "events-on-schedule"}), *VIEWS):
            tables.execute_sql(statement)
        tables.execute_sql(f"CREATE TABLE {name} ({_COLUMNS[name]}) WITH ('connector' = 'latencies')")
        tables.execute_sql(f"INSERT INTO {name} {_QUERIES[name]}").wait()
        for file in Path(folder).glob("*.json"):
            found.update({int(age): count for age, count in json.loads(file.read_text(encoding="utf-8")).items()})
    return found


def of_flink(name: str, rate: int, seconds: int, generator: Path) -> Counter[int]:
    """Return the same of Flink. Raises RuntimeError if it fails."""
    rates = {"first-event.rate": str(rate), "next-event.rate": str(rate), "events.num": str(rate * seconds)}
    events = events_table({"connector": "nexmark", "max-emit-speed": "false", **rates})
    query: dict[str, Any] = {"name": name, "setup": [events, *_FLINK_VIEWS], "latency": _FLINK_QUERIES[name]}
    query |= {"warmup_ms": _WARMUP_MS, "end_ms": seconds * 1000}
    (answer,) = run_in_flink(FLINK, [], [query], jars=[generator])
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return Counter({int(age): count for age, count in answer["latencies_ms"].items()})


def percentiles(found: Mapping[int, int]) -> dict[str, float]:
    """Return the number of rows, and percentiles of their latency (ms)."""
    ages = sorted(found)
    sums = numpy.cumsum([found[age] for age in ages])
    shown = {f"p{share:g}": float(ages[int(numpy.searchsorted(sums, sums[-1] * share / 100))]) for share in _SHOWN}
    return {"rows": float(sums[-1]), **shown}


def table_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures as a table in Markdown."""
    lines = ["| query | penstock, p50 / p99 (ms) | Flink | ratio of p99 |", "| --- | --- | --- | --- |"]
    for row in rows:
        ours, flinks = row["penstock"], row["flink"]
        cells = [f"{of['p50']:.0f} / {of['p99']:.0f}" for of in (ours, flinks)]
        lines.append(f"| {row['query']} | {cells[0]} | {cells[1]} | {ours['p99'] / flinks['p99']:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=20_000, help="events a second")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--only", default=",".join(_QUERIES), help="queries, separated by commas")
    parser.add_argument("--nexmark", help="a checkout of github nexmark/nexmark")
    arguments = parser.parse_args()
    generator = generator_or_exit(arguments.nexmark)
    rows = []
    for name in arguments.only.split(","):
        flinks = percentiles(of_flink(name, arguments.rate, arguments.seconds, generator))
        ours = percentiles(of_penstock(name, arguments.rate, arguments.seconds))
        rows.append({"query": name, "penstock": ours, "flink": flinks})
        print(json.dumps(rows[-1]), flush=True)
    print(table_of(rows))


if __name__ == "__main__":
    main()
