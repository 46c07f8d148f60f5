"""Common parts of measurement programs: options, running a job over a steady window, output of the figures.

The last line that a program prints is JSON, `{"figure": number, …}`. Programs run from the repository's root:
`python -m benchmarks.keyed_count --keys 1000 --seconds 20`.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.arrivals import Arrivals, ArrivalsSink, count_so_far
from benchmarks.process_tree import Usage, usage
from penstock.common.configuration import Configuration
from penstock.datastream import StreamExecutionEnvironment

_TIMEOUT_S = 180
_POLL_S = 0.1
# A second's line is written with the first chunk of the next second, or a later one if records are rare.
_LINES_WRITTEN_S = 1.5


def options(description: str | None, steady: bool = True) -> argparse.ArgumentParser:
    """Return the options of all programs; `steady`: also those of programs with a measurement window."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--buffer-timeout-ms", type=int, default=5)
    parser.add_argument("--checkpoint-interval-ms", type=int, default=0, help="0: no checkpoints")
    parser.add_argument("--backend", choices=["hashmap", "rocksdb"], default="hashmap", help="of keyed state")
    if steady:
        parser.add_argument("--warm-up", type=float, default=10, metavar="SECONDS", help="after the first record")
        parser.add_argument("--seconds", type=int, default=20, help="how long to measure after that")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting; spark.* are Spark's"
    )
    return parser


def environment(arguments: argparse.Namespace) -> StreamExecutionEnvironment:
    """Create an environment from these options."""
    settings = {"state.backend.type": arguments.backend}
    settings |= dict(setting.split("=", 1) for setting in arguments.conf)
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(arguments.parallelism)
    env.set_buffer_timeout(arguments.buffer_timeout_ms)
    if arguments.checkpoint_interval_ms:
        env.enable_checkpointing(arguments.checkpoint_interval_ms)
    return env


class Measured:
    """The results of the window: arrivals, the job's counters at its end, checkpoints, usage at its begin and end."""

    def __init__(self, arrivals: Arrivals, vertices: list[Any], checkpoints: list[Any], used: list[Usage]) -> None:
        self.arrivals = arrivals
        self.vertices = vertices
        self.used_before, self.used_after = used
        begin_ms, end_ms = arrivals.begin * 1000, arrivals.end * 1000
        completed = [r for r in checkpoints if begin_ms <= r.triggered_ms < end_ms and r.is_completed]
        self.checkpoints = len(completed)
        self.longest_checkpoint_ms = max((r.duration_ms for r in completed), default=0)

    def latency(self) -> dict[str, float]:
        """Return rate and ages of the records."""
        p50, p90, p99, most = self.arrivals.age_ms(0.5, 0.9, 0.99, 1)
        return {
            "records_per_s": self.arrivals.records_per_s,
            "p50_ms": p50,
            "p90_ms": p90,
            "p99_ms": p99,
            "max_ms": most,
            "checkpoints": self.checkpoints,
        }

    def cpu_ns(self, records: float) -> dict[str, float]:
        """Return the CPU time of so many records of the window, of the JVM and of Python."""
        before, after = self.used_before, self.used_after
        return {
            "jvm_ns_per_record": (after.jvm_cpu_s - before.jvm_cpu_s) * 1e9 / records,
            "python_ns_per_record": (after.python_cpu_s - before.python_cpu_s) * 1e9 / records,
        }

    @property
    def bytes_per_record(self) -> float:
        """Return the bytes of a record on the wire between the first two vertices."""
        first = self.vertices[0]
        return float(first.bytes_out / max(1, first.operators[-1].records_out))


def measure(
    arguments: argparse.Namespace,
    build: Callable[[StreamExecutionEnvironment], Any],
    *,
    warm_up_records: int = 0,
    begun: Callable[[], None] = lambda: None,
    ended: Callable[[], None] = lambda: None,
    **sink: Any,
) -> Measured:
    """Run the stream returned by `build` into an ArrivalsSink, through a warm-up, then for the given seconds.

    The warm-up begins with the first record and lasts at least until `warm_up_records` have arrived. `begun` and
    `ended` are called at the start and end of the window. Other arguments are passed to the sink.
    """
    env = environment(arguments)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        directory = Path(name)
        build(env).sink_to(ArrivalsSink(name, **sink))
        client = env.execute_async("benchmark")
        wait_until(client, lambda: count_so_far(directory) > 0, "no record has arrived")
        time.sleep(arguments.warm_up)
        wait_until(client, lambda: count_so_far(directory) >= warm_up_records, "records are missing")
        begin = math.ceil(time.time())
        time.sleep(max(0, begin - time.time()))
        begun()
        used = [usage()]
        end = begin + arguments.seconds
        time.sleep(max(0, end - time.time()))
        used.append(usage())
        ended()
        time.sleep(_LINES_WRITTEN_S)
        vertices, checkpoints = client.get_vertex_metrics(), client.get_checkpoints()
        client.cancel().result()
        return Measured(Arrivals(directory, begin, end), vertices, checkpoints, used)


def rate_within(arguments: argparse.Namespace, client: Any, operator: str) -> float:
    """Records per second that come to an operator after a warm-up, as the job counts them. Cancels the job."""

    def count() -> int:
        return int(client.get_metrics().get(operator, {}).get("numRecordsIn", 0))

    wait_until(client, lambda: count() > 0, "no record has arrived")
    time.sleep(arguments.warm_up)
    began_s, first = time.monotonic(), count()
    time.sleep(arguments.seconds)
    rate = (count() - first) / (time.monotonic() - began_s)
    client.cancel().result()
    return rate


def wait_until(
    client: Any, happened: Callable[[], bool], what: str, timeout_s: float = _TIMEOUT_S, poll_s: float = _POLL_S
) -> None:
    """Wait for a condition in a job. Raises the job's error if it ends first, TimeoutError with `what`."""
    deadline = time.monotonic() + timeout_s
    while not happened():
        status = client.get_job_status().result()
        if status.is_terminal_state():
            client.get_job_execution_result().result()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} in {timeout_s} s; the job is {status}")
        time.sleep(poll_s)


def tell(figures: dict[str, float]) -> None:
    """Print the figures of a program."""
    print(json.dumps(figures), flush=True)
