"""What a small chunk costs, of columns and of rows: the job of `latency`, in one process and without Spark.

Two sources emit so many records each in a millisecond, with buffers of 1 ms; every buffer is received and processed by
itself. Prints the CPU time of a source for its chunk and the buffers of it, and that of a receiver for a buffer (µs).
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from benchmarks.arrivals import ArrivalsSink
from benchmarks.latency import columns_through_exchanges, through_exchanges
from benchmarks.measurement import tell
from penstock.connectors.base.ranges import strided
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.pickling import dump_level, load_level
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.events import AssignSplits, Opaque
from penstock.engine.runtime.task.slot import Slot
from penstock.service.client.plan_executor import PlanExecutor

_SOURCES = 2
_TICK_MS = 1

Spent = dict[str, list[float]]
"""By stage the CPU times of its calls (µs)."""


class Line:
    """Two sources and two receivers, whose buffers are handed over at once. Time is what `tick` makes of it."""

    def __init__(self, build: Callable[..., Any], records: int, directory: str) -> None:
        self._now_ms = 1_700_000_000_000
        executor = PlanExecutor()
        env = StreamExecutionEnvironment(executor=executor)
        env.set_parallelism(_SOURCES)
        env.set_buffer_timeout(_TICK_MS)
        # A little more: by rounding, a record would be due after its millisecond, and be a chunk of its own.
        rate = records * _SOURCES * 1_000 / _TICK_MS * 1.000001
        build(env, rate, 1).sink_to(ArrivalsSink(directory, stamp=2))
        env.execute("small chunks")
        (graph,) = executor.graphs
        payloads = [dump_level(level) for level in graph.levels("0" * 32)]
        first, last = ([self._slot(payload, index) for index in range(_SOURCES)] for payload in payloads)
        self._sources, self._receivers = first, last
        for slot, split in zip(first, strided(None, _SOURCES), strict=True):
            slot.handle(graph.sources[0].id, AssignSplits(Opaque([split])))
        self.spent: Spent = {"source": [], "receiver": []}

    def _slot(self, payload: bytes, index: int) -> Slot:
        environment = Environment(lambda: self._now_ms, time.perf_counter_ns)
        slot = Slot(load_level(payload), index, environment)
        slot.open()
        return slot

    def tick(self) -> None:
        """Let a millisecond pass: each source emits, and what it sends is processed."""
        self._now_ms += _TICK_MS
        for source in self._sources:
            began = time.thread_time_ns()
            while source.step():
                pass
            sent = source.outbox.take()
            self.spent["source"].append((time.thread_time_ns() - began) / 1000)
            for target, buffer in sent:
                receiver = self._receivers[target]
                began = time.thread_time_ns()
                receiver.receive(buffer)
                while receiver.step():
                    pass
                self.spent["receiver"].append((time.thread_time_ns() - began) / 1000)

    def clear(self) -> None:
        """Forget the times so far."""
        for times in self.spent.values():
            times.clear()


def main() -> None:
    """Measure, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, nargs="+", default=[10, 100, 1_000], help="of a source's chunk")
    parser.add_argument("--ticks", type=int, default=2_000)
    parser.add_argument("--warm-up", type=int, default=300, help="ticks before those")
    parser.add_argument("--profile", choices=["rows", "columns"])
    arguments = parser.parse_args()
    builds = {"rows": through_exchanges, "columns": columns_through_exchanges}
    figures: dict[str, float] = {}
    for records in arguments.records:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
            lines = {kind: Line(build, records, directory) for kind, build in builds.items()}
            for kind, line in lines.items():
                for _ in range(arguments.warm_up):
                    line.tick()
                line.clear()
                if arguments.profile == kind:
                    profile = cProfile.Profile()
                    profile.enable()
                    for _ in range(arguments.ticks):
                        line.tick()
                    profile.disable()
                    pstats.Stats(profile).sort_stats("tottime").print_stats(60)
            if arguments.profile:
                continue
            # By turns: what else runs on the machine meets both.
            for _ in range(max(1, arguments.ticks // 50)):
                for line in lines.values():
                    for _ in range(50):
                        line.tick()
        for kind, line in lines.items():
            for stage, times in line.spent.items():
                figures[f"{kind}_{stage}_us_{records}"] = round(statistics.median(times), 1)
    tell(figures)


if __name__ == "__main__":
    main()
