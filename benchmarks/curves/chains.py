"""Chained operators: CPU and time per record and operator, by the length of the chain.

python -m benchmarks.curves.chains --operators 2000
"""

from __future__ import annotations

import argparse
import time

from benchmarks.measurement import environment, options, tell
from benchmarks.process_tree import usage
from penstock.datastream import DataStream

_KINDS = ("map", "filter", "flat_map")


def plus_one(value: int) -> int:
    """Return the next number."""
    return value + 1


def lengthened(stream: DataStream[int], kind: str) -> DataStream[int]:
    """Return the stream with one operator more."""
    if kind == "map":
        return stream.map(plus_one)
    return stream.filter(lambda value: value >= 0) if kind == "filter" else stream.flat_map(lambda value: [value])


def main() -> None:
    """Measure, by the options."""
    parser: argparse.ArgumentParser = options(__doc__, steady=False)
    parser.add_argument("--operators", type=int, default=2000)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--kind", choices=[*_KINDS, "mixed"], default="mixed")
    arguments = parser.parse_args()
    env = environment(arguments)
    stream: DataStream[int] = env.from_sequence(1, arguments.records)
    for index in range(arguments.operators):
        stream = lengthened(stream, _KINDS[index % 3] if arguments.kind == "mixed" else arguments.kind)
    began, before = time.monotonic(), usage()
    count = sum(1 for _ in stream.execute_and_collect())
    assert count == arguments.records, count
    seconds, after = time.monotonic() - began, usage()
    passes = arguments.records * arguments.operators
    tell(
        {
            "seconds": seconds,
            "driver_s_per_operator": (after.python_cpu_s - before.python_cpu_s) / arguments.operators,
            "ns_per_record_and_operator": seconds * 1e9 / passes,
        }
    )


if __name__ == "__main__":
    main()
