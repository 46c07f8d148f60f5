"""Large payloads through one exchange by turns: in Spark's rows, in memory that workers share, in files on disk.

Item 38. The records are bytes of one size, each a buffer of its own. `--count` measures the keyed running count on
columns in their place. One session serves all measurements; the order changes with each round.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.chunk_source import ChunkSource
from benchmarks.latency import through_exchanges
from benchmarks.measurement import measure, options, tell
from benchmarks.process_tree import usage
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment

_KEYS = 1000
_PAIRS = Types.ROW_NAMED(["key", "amount"], [Types.LONG(), Types.LONG()])
_SIZE = "penstock.network.shared-memory.size"
_DIRECTORY = "penstock.network.shared-memory.directory"


def payloads(size: int, env: StreamExecutionEnvironment) -> DataStream[Any]:
    """Bytes without a pattern to the next subtask."""
    payload = os.urandom(size)
    source = ChunkSource(lambda numbers: [payload] * len(numbers))
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "payloads").rebalance()


def counts(env: StreamExecutionEnvironment) -> DataStream[Any]:
    """The keyed running count on columns."""

    def batch(numbers: range) -> pa.RecordBatch:
        keys = np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.int64) * 2654435761 % _KEYS
        return pa.RecordBatch.from_arrays([pa.array(keys), pa.array(np.ones_like(keys))], names=["key", "amount"])

    source = ChunkSource(lambda numbers: [], make_batch=batch)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "pairs", _PAIRS)
    return stream.as_columns().key_by("key").aggregate({"n": "count"})


def figures_of(settings: list[str], arguments: argparse.Namespace) -> dict[str, float]:
    """MB/s, CPU for each MB, and the 99th percentile of latency at the rate, with these settings."""
    arguments = argparse.Namespace(**vars(arguments))
    arguments.conf = [*arguments.conf, *settings]
    used = []

    def note() -> None:
        used.append(usage())

    build: Callable[[StreamExecutionEnvironment], Any] = counts
    if not arguments.count:

        def build(env: StreamExecutionEnvironment) -> DataStream[Any]:
            return payloads(arguments.size, env)

    fast = measure(arguments, build, begun=note, ended=note)
    before, after = used
    records = max(1, fast.arrivals.counts.total())
    figures = {
        "records_per_s": fast.arrivals.records_per_s,
        "mb_per_s": fast.arrivals.records_per_s * fast.bytes_per_record / 1e6,
        "jvm_ms_per_mb": (after.jvm_cpu_s - before.jvm_cpu_s) * 1e9 / records / fast.bytes_per_record,
        "python_ms_per_mb": (after.python_cpu_s - before.python_cpu_s) * 1e9 / records / fast.bytes_per_record,
    }
    if arguments.rate:
        steady = measure(arguments, lambda env: through_exchanges(env, arguments.rate, 1), stamp=2).latency()
        figures["p99_ms"] = steady["p99_ms"]
    return figures


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--size", type=int, default=1 << 20, help="bytes of a payload")
    parser.add_argument("--count", action="store_true", help="the keyed running count on columns in place of payloads")
    parser.add_argument("--rate", type=float, default=0, help="records/s at which latency is measured as well; 0: not")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--show-rounds", action="store_true", help="print the figures of each round, too")
    arguments = parser.parse_args()
    taken: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=Path.cwd()) as disk:
        ways = {"rows": [f"{_SIZE}=0"], "memory": [], "disk": [f"{_DIRECTORY}={disk}"]}
        for turn in range(arguments.rounds):
            for way in list(ways) if turn % 2 == 0 else list(ways)[::-1]:
                figures = figures_of(ways[way], arguments)
                for name, figure in figures.items():
                    taken[f"{way}_{name}"].append(figure)
                if arguments.show_rounds:
                    print(way, {name: round(figure, 3) for name, figure in figures.items()}, flush=True)
    tell({name: statistics.median(values) for name, values in taken.items()})


if __name__ == "__main__":
    main()
