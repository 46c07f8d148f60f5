"""Both transports between a task and Spark by turns: throughput of the keyed count, latency of one exchange.

Item 21. One session serves all measurements, so that both meet the same JVM; the order changes with each pair.
"""

from __future__ import annotations

import argparse
import functools
import statistics
from collections import defaultdict
from typing import Any

from benchmarks.chunk_source import ChunkSource
from benchmarks.keyed_count import counted, numbers_by_key
from benchmarks.latency import through_exchanges
from benchmarks.measurement import measure, options, tell
from benchmarks.process_tree import usage
from penstock.common import WatermarkStrategy
from penstock.common.configuration.choices import SparkTransport
from penstock.datastream import DataStream, StreamExecutionEnvironment

_KEYS = 1000


def keyed_count(env: StreamExecutionEnvironment) -> DataStream[Any]:
    """As item 1."""
    source = ChunkSource(functools.partial(numbers_by_key, _KEYS))
    return counted(env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers"), "process")


def figures_of(transport: SparkTransport, arguments: argparse.Namespace) -> dict[str, float]:
    """Throughput as fast as it goes, then latency at the rate, of one transport."""
    arguments = argparse.Namespace(**vars(arguments))
    arguments.conf = [*arguments.conf, f"penstock.spark.transport={transport.value}"]
    used = []

    def note() -> None:
        used.append(usage())

    fast = measure(arguments, keyed_count, begun=note, ended=note)
    steady = measure(arguments, lambda env: through_exchanges(env, arguments.rate, 1), stamp=2).latency()
    before, after = used
    cpu_s = after.jvm_cpu_s - before.jvm_cpu_s + after.python_cpu_s - before.python_cpu_s
    return {
        "records_per_s": fast.arrivals.records_per_s,
        "cpu_ns_per_record": cpu_s * 1e9 / max(1, fast.arrivals.counts.total()),
        "p50_ms": steady["p50_ms"],
        "p99_ms": steady["p99_ms"],
    }


def compare(arguments: argparse.Namespace) -> dict[str, float]:
    """Medians over all pairs, and medians of the ratio iterators : pipes within a pair."""
    taken: dict[str, list[float]] = defaultdict(list)
    for pair in range(arguments.pairs):
        order = list(SparkTransport) if pair % 2 == 0 else list(SparkTransport)[::-1]
        figures = {transport: figures_of(transport, arguments) for transport in order}
        for name, of_pipes in figures[SparkTransport.PIPES].items():
            of_iterators = figures[SparkTransport.ITERATORS][name]
            taken[f"pipes_{name}"].append(of_pipes)
            taken[f"iterators_{name}"].append(of_iterators)
            taken[f"{name}_ratio"].append(of_iterators / of_pipes)
        if arguments.show_pairs:
            print({transport.value: of for transport, of in figures.items()}, flush=True)
    return {name: statistics.median(values) for name, values in taken.items()}


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--rate", type=float, default=20_000, help="records/s of the latency's measurement")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--show-pairs", action="store_true", help="print the figures of each pair, too")
    tell(compare(parser.parse_args()))


if __name__ == "__main__":
    main()
