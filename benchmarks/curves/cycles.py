"""Objects of users in reference cycles: memory over time, and CPU per record.

Each record replaces the object of its key, and each object refers to itself by a child. An object lives until the next
record of its key, so it has survived collections of the young generation when it becomes garbage.

    python -m benchmarks.curves.cycles --seconds 1800
    python -m benchmarks.curves.cycles --keys 1000000 --warm-up 60 --rate 50000
    python -m benchmarks.curves.cycles --plain
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.arrivals import ArrivalsSink, count_so_far
from benchmarks.chunk_source import ChunkSource
from benchmarks.keyed_count import Pair, numbers_by_key
from benchmarks.measurement import environment, options, tell, wait_until
from benchmarks.process_tree import usage, workers
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ValueStateDescriptor

_SAMPLES = 60


class Node:
    """An object as users write them: a parent that knows its child, which knows its parent."""

    def __init__(self, count: int, parent: Node | None = None) -> None:
        self.count = count
        self.parent = parent
        self.text = f"node {count} " * 20
        self.child = Node(count, self) if parent is None else None


class Keep(KeyedProcessFunction[int, Pair, Pair]):
    """Keeps a new object for each record; `plain`: one without a cycle."""

    def __init__(self, plain: bool) -> None:
        self._plain = plain

    def open(self, runtime_context: RuntimeContext) -> None:
        self.node = runtime_context.get_state(ValueStateDescriptor("node", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Pair, ctx: KeyedProcessFunction.Context) -> Iterator[Pair]:
        former = self.node.value()
        node = Node(former.count + 1 if former else 1)
        if self._plain:
            node.child = None
        self.node.update(node)
        yield value[0], node.count


def worker_mb() -> float:
    """Return the resident memory of all workers."""
    return float(sum(worker.memory_info().rss for worker in workers()) / 1e6)


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--plain", action="store_true", help="objects without cycles")
    arguments = parser.parse_args()
    env = environment(arguments)
    source = ChunkSource(functools.partial(numbers_by_key, arguments.keys), arguments.rate)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        directory = Path(name)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        kept: Any = stream.key_by(lambda pair: pair[0], key_type=Types.LONG()).process(Keep(arguments.plain))
        kept.sink_to(ArrivalsSink(name))
        client = env.execute_async("cycles")
        wait_until(client, lambda: count_so_far(directory) > 0, "no record has arrived")
        time.sleep(arguments.warm_up)
        before, began, first = usage(), time.monotonic(), count_so_far(directory)
        samples = []
        for number in range(1, _SAMPLES + 1):
            time.sleep(max(0.0, began + arguments.seconds * number / _SAMPLES - time.monotonic()))
            samples.append(worker_mb())
        after, records = usage(), count_so_far(directory) - first
        client.cancel().result()
    third = _SAMPLES // 3
    tell(
        {
            "records_per_s": records / (time.monotonic() - began),
            "python_ns_per_record": (after.python_cpu_s - before.python_cpu_s) * 1e9 / records,
            "workers_mb_first_third": max(samples[:third]),
            "workers_mb_last_third": max(samples[-third:]),
            "grown_mb_per_s": (max(samples[-third:]) - max(samples[:third])) / (arguments.seconds * 2 / 3),
        }
    )


if __name__ == "__main__":
    main()
