"""Descriptors and threads of Spark's JVM, memory of the workers, and checkpoints of an idle job, by parallelism.

A checkpoint is the median of those of ten seconds, one each second, after the first three.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time

import psutil  # type: ignore[import-untyped,unused-ignore]

from benchmarks.measurement import tell
from penstock.common import Configuration, JobStatus, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

_PARALLELISMS = "4,16,64"
_CHECKPOINTS = 10
_SKIPPED = 3


def measure(parallelism: int, slots: str, rate: float) -> dict[str, float]:
    """Run a keyed count with `rate` records a second for each subtask, and look at the processes."""
    settings = {
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": tempfile.mkdtemp(prefix="subtasks-"),
        **({"taskmanager.numberOfTaskSlots": slots} if slots else {}),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(parallelism)
    source: DataGeneratorSource[int] = DataGeneratorSource(
        lambda n: n, 1 << 40, RateLimiterStrategy.per_second(parallelism * rate)
    )
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda n: n % 1_000).reduce(lambda a, b: a + b).filter(lambda n: False).print()
    client = env.execute_async("subtasks")
    while client.get_job_status().result() is not JobStatus.RUNNING:
        time.sleep(0.2)
    while len(reports := client._run.checkpoints) < _CHECKPOINTS + _SKIPPED:
        time.sleep(0.5)
    children = psutil.Process(os.getpid()).children(recursive=True)
    jvm = next(process for process in children if "java" in process.name())
    workers = [process for process in children if process.name().startswith("python")]
    figures = {
        "JVM descriptors": float(jvm.num_fds()),
        "JVM threads": float(jvm.num_threads()),
        "workers": len(workers) - 1.0,
        "workers MB": sum(process.memory_full_info().uss for process in workers) / 1e6,
        "checkpoint ms": statistics.median(report.duration_ms for report in reports[_SKIPPED:]),
    }
    client.cancel().result()
    return figures


def main() -> None:
    """Print a table, and its figures as JSON in the last line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parallelism", default=_PARALLELISMS, help="comma-separated")
    parser.add_argument("--slots", default="", help="taskmanager.numberOfTaskSlots; by default it is not set")
    parser.add_argument("--rate", type=float, default=1, help="records a second for each subtask")
    arguments = parser.parse_args()
    told: dict[str, float] = {}
    for parallelism in map(int, arguments.parallelism.split(",")):
        figures = measure(parallelism, arguments.slots, arguments.rate)
        if not told:
            print("".join(f"{title:>17}" for title in ("subtasks", *figures)))
        print("".join(f"{cell:>17}" for cell in (parallelism, *(f"{value:,.0f}" for value in figures.values()))))
        told |= {f"{name}_{parallelism}": value for name, value in figures.items()}
    tell(told)


if __name__ == "__main__":
    main()
