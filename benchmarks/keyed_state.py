"""Keyed state of a given size, and the job that holds it, for items 16 to 19.

source → key_by → process → sink. Each key has a distinct value. Numbers below the number of keys are emitted without a
rate limit, so that each key is written once; later ones have a steady rate and update one key after another. The count
in a key's value persists over all runs of the job, so lost state shows as lost counts.

A job is loaded once and cancelled with its checkpoint retained. Each later run restores the newest checkpoint: its
first checkpoint is therefore full, of exactly that state, however fast this machine loads.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.arrivals import ArrivalsSink, began_ns, count_so_far
from benchmarks.chunk_source import ChunkSource
from benchmarks.measurement import environment, wait_until
from benchmarks.measurement import options as common_options
from penstock.common import Encoder, JobStatus, Types, WatermarkStrategy
from penstock.datastream import ExternalizedCheckpointRetention, KeyedProcessFunction, RuntimeContext
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.state import ValueStateDescriptor

Pair = tuple[int, int]
KEEPER = "keep"
_NAME = "keyed state"
_COUNT_BYTES = 8
_LOAD_TIMEOUT_S = 600
_LOAD_INTERVAL_MS = 2_000
_POLL_S = 0.02


class Keep(KeyedProcessFunction[int, int, Pair]):
    """Counts a key's records in a value of a given size."""

    def __init__(self, value_bytes: int) -> None:
        self.value_bytes = value_bytes

    def open(self, runtime_context: RuntimeContext) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[Pair]:
        before = self.value.value()
        count = int.from_bytes(before[:_COUNT_BYTES], "little") + 1 if before else 1
        # One object per key, since pickle writes an object that occurs twice only once; and incompressible for
        # RocksDB: the size of state is the size of its values.
        self.value.update(count.to_bytes(_COUNT_BYTES, "little") + os.urandom(self.value_bytes - _COUNT_BYTES))
        yield value, count


class KeysInTurn:
    """The keys of a range of numbers: 0, 1, …, repeated."""

    def __init__(self, keys: int) -> None:
        self.keys = keys

    def __call__(self, numbers: range) -> list[int]:
        keys = self.keys
        return [number % keys for number in numbers]


def options(description: str | None, state_mb: int) -> argparse.ArgumentParser:
    """Return the options of programs that run this job; `state_mb` is the default size."""
    parser = common_options(description, steady=False)
    parser.set_defaults(checkpoint_interval_ms=1_000)
    parser.add_argument("--state-mb", type=int, default=state_mb)
    parser.add_argument("--value-bytes", type=int, default=1_000)
    parser.add_argument("--rate", type=float, default=20_000, help="records/s, once all keys are there")
    return parser


class Running:
    """One run of the job. `runs_s`: seconds from the call that started it until all tasks were running."""

    def __init__(self, client: Any, directory: Path, started_s: float) -> None:
        self.client = client
        self.directory = directory
        wait_until(client, lambda: self.status is JobStatus.RUNNING, "the job does not run", poll_s=_POLL_S)
        self.runs_s = time.monotonic() - started_s

    @property
    def status(self) -> JobStatus:
        """The current status of the job."""
        status: JobStatus = self.client.get_job_status().result()
        return status

    @property
    def keeper(self) -> Any:
        """Metrics of the vertex with the state."""
        return next(vertex for vertex in self.client.get_vertex_metrics() if KEEPER in vertex.name)

    def wait_for_records(self, count: int) -> None:
        """Wait until that many records have arrived at the sink."""
        what = f"fewer than {count} records have come"
        wait_until(self.client, lambda: count_so_far(self.directory) >= count, what, _LOAD_TIMEOUT_S)

    def wait_for_flow(self, subtasks: int, after_ns: int = 0) -> int:
        """Wait until that many subtasks of the sink, started later, have received records; return the time in ns."""
        flowing = lambda: len(began_ns(self.directory, after_ns)) >= subtasks  # noqa: E731
        wait_until(self.client, flowing, "records do not flow", poll_s=_POLL_S)
        return max(began_ns(self.directory, after_ns).values())

    def wait_for_checkpoints(self, count: int, after_ms: int = 0) -> list[Any]:
        """Return the reports of the first `count` checkpoints triggered after `after_ms`."""

        def reports() -> list[Any]:
            return [report for report in self.client.get_checkpoints() if report.triggered_ms >= after_ms]

        wait_until(self.client, lambda: len(reports()) >= count, f"no {count} checkpoints", _LOAD_TIMEOUT_S)
        return reports()[:count]

    def cancel(self) -> None:
        """End this run. Its newest checkpoint is retained."""
        self.client.cancel().result()


class StateJob:
    """Runs the job repeatedly, each time from its newest checkpoint. `directory` is for checkpoints and output."""

    def __init__(self, arguments: argparse.Namespace, directory: Path) -> None:
        self.arguments = arguments
        self.checkpoints = directory / "checkpoints"
        self.keys = arguments.state_mb * 1_000_000 // arguments.value_bytes
        self._directory = directory
        self._runs = 0

    def start(self, parallelism: int, interval_ms: int, go_on: bool = True, files: Path | None = None) -> Running:
        """Start a run, from the newest checkpoint if `go_on`; returns when all its tasks run.

        `files`: where keys and their counts are written, too, exactly once.
        """
        settings = {"execution.checkpointing.dir": str(self.checkpoints)}
        if go_on:
            settings["execution.state-recovery.path"] = "latest"
        arguments = argparse.Namespace(**vars(self.arguments))
        arguments.parallelism, arguments.checkpoint_interval_ms = parallelism, interval_ms
        arguments.conf = [*(f"{key}={value}" for key, value in settings.items()), *self.arguments.conf]
        env = environment(arguments)
        keep = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
        env.get_checkpoint_config().set_externalized_checkpoint_retention(keep)
        source = ChunkSource(KeysInTurn(self.keys), self.arguments.rate, at_once=self.keys)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        kept = numbers.key_by(lambda key: key, key_type=Types.LONG()).process(Keep(self.arguments.value_bytes))
        self._runs += 1
        out = self._directory / f"run-{self._runs}"
        out.mkdir()
        kept.name(KEEPER).uid(KEEPER).sink_to(ArrivalsSink(str(out)))
        if files is not None:
            lines = kept.map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING()).uid("lines")
            sink = FileSink.for_row_format(str(files), Encoder.simple_string_encoder())
            policy = RollingPolicy.on_checkpoint_rolling_policy()
            lines.sink_to(sink.with_rolling_policy(policy).build()).uid("files")
        started_s = time.monotonic()
        return Running(env.execute_async(_NAME), out, started_s)

    def newest_checkpoint(self) -> Path:
        """The manifest from which the next run is restored."""
        return max(self.checkpoints.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime)

    def load(self, parallelism: int) -> None:
        """Do the first run, until a checkpoint contains all keys."""
        run = self.start(parallelism, _LOAD_INTERVAL_MS, go_on=False)
        run.wait_for_records(self.keys)
        run.wait_for_checkpoints(1, time.time_ns() // 1_000_000)
        run.cancel()
