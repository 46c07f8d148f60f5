"""A keyed job in BATCH: numbers → key_by → process, reduce or a window → a sink that counts. Item 23.

Timed from the call that starts the job to its end, in a session that has already run a small job. The memory is that of
the largest Python worker, and of the JVM, sampled while the job runs.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

import psutil  # type: ignore[import-untyped]

from benchmarks.keyed_count import Count
from benchmarks.measurement import environment, options, tell
from benchmarks.process_tree import usage, workers
from penstock.common import Duration, Types, WatermarkStrategy
from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.window import TumblingEventTimeWindows

_SAMPLE_S = 0.2
_SMALL_RECORDS = 1_000
_WINDOW_MS = 1 << 40


class WorkerMemory:
    """Watches the processes of this program from `with` to its end."""

    def __init__(self) -> None:
        self.worker_bytes = 0
        self.jvm_bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> WorkerMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_SAMPLE_S):
            self.jvm_bytes = max(self.jvm_bytes, usage().jvm_bytes)
            for worker in workers():
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    self.worker_bytes = max(self.worker_bytes, worker.memory_info().rss)


def run(arguments: Any, records: int, keys: int) -> int:
    """Run the job. Returns how many records came out, by the counters of the operator."""
    env = environment(arguments)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    numbers = env.from_source(
        NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    # An order without cache locality; timestamps in another one.
    pairs = numbers.map(lambda i: (i * 2654435761 % keys, 1))
    if arguments.timed or arguments.function == "window":
        strategy: Any = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
        pairs = numbers.assign_timestamps_and_watermarks(
            strategy.with_timestamp_assigner(lambda i, _: i * 1_000_003 % records)
        ).map(lambda i: (i * 2654435761 % keys, 1))
    keyed: Any = pairs.key_by(lambda pair: pair[0], key_type=Types.LONG())
    if arguments.function == "process":
        results: Any = keyed.process(Count())
    elif arguments.function == "window":
        results = keyed.window(TumblingEventTimeWindows.of(_WINDOW_MS)).reduce(lambda a, b: (a[0], a[1] + b[1]))
    else:
        results = keyed.reduce(lambda a, b: (a[0], a[1] + b[1]))
    # Nothing is collected: this is about the keyed operator.
    collected = results.filter(lambda pair: False).execute_and_collect()
    with collected:
        for _ in collected:
            raise RuntimeError("the filter lets nothing through")
        vertices = collected.get_job_client().get_vertex_metrics()
    return sum(operator.records_in for vertex in vertices for operator in vertex.operators if operator.name == "Filter")


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__, steady=False)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--function", choices=["process", "reduce", "window"], default="process")
    parser.add_argument("--timed", action="store_true", help="records have timestamps, in another order")
    arguments = parser.parse_args()
    run(arguments, _SMALL_RECORDS, _SMALL_RECORDS)
    with WorkerMemory() as memory:
        began = time.perf_counter()
        came = run(arguments, arguments.records, arguments.keys)
        took_s = time.perf_counter() - began
    tell(
        {
            "records_per_s": arguments.records / took_s,
            "seconds": took_s,
            "worker_mb": memory.worker_bytes / 1e6,
            "jvm_mb": memory.jvm_bytes / 1e6,
            "results": came,
        }
    )


if __name__ == "__main__":
    main()
