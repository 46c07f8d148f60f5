"""Stateless: source → map → filter → sink, all in one chain. Item 3.

The filter keeps every second record; the records before it are counted.
"""

from __future__ import annotations

import functools
from typing import Any

from benchmarks.chunk_source import ChunkSource
from benchmarks.measurement import measure, options, tell
from penstock.common import WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment

_KEPT = 0.5


def numbered(subtasks: int, numbers: range) -> list[tuple[int, int]]:
    """Return (key, turn): a subtask generates every p-th number, so turns are even and odd in each."""
    return [(i * 2654435761 % 1000, i // subtasks) for i in numbers]


def main() -> None:
    """Measure, by the options."""
    arguments = options(__doc__).parse_args()
    source = ChunkSource(functools.partial(numbered, arguments.parallelism))

    def build(env: StreamExecutionEnvironment) -> DataStream[Any]:
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        return stream.map(lambda pair: (pair[0], pair[1] + 2)).filter(lambda pair: pair[1] % 2 == 0)

    measured = measure(arguments, build)
    records = measured.arrivals.counts.total() / _KEPT
    tell({"records_per_s": measured.arrivals.records_per_s / _KEPT, **measured.cpu_ns(records)})


if __name__ == "__main__":
    main()
