"""The state of aggregates on columns, in one process: memory of a key, snapshots while it changes, sparse windows.

python -m benchmarks.column_state [KEYS]
python -m benchmarks.column_state --jobs: whole jobs, a running count and sum of 1,000 keys and of 1,000,000 by turns
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pyarrow

from benchmarks.chunk_source import ChunkSource
from benchmarks.measurement import measure, options, tell
from penstock.common import Types, WatermarkStrategy
from penstock.common.functions.field_aggregates import COUNT, SUM, FieldAggregate
from penstock.common.types import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.runtime.columns.aggregate_classes import arrays_of
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays
from penstock.engine.state.arrays.array_table import ArrayTable
from penstock.engine.state.arrays.row_keys import IntegerKeys
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.snapshot.files import write_keyed

CHUNK = 1 << 16
AGGREGATES = [FieldAggregate("count", COUNT), FieldAggregate("sum", SUM, "n")]


def main(keys: int) -> None:
    """Print the figures of a count and a sum of so many keys."""
    state = State(keys)
    print(f"{keys:,} keys: {state.insert():.0f} ns a new key, {state.bytes_per_key():.0f} bytes of memory each")
    whole = state.snapshot(full=True)
    state.change(keys // 100)
    part = state.snapshot(full=False)
    print(f"  1 % of the keys changed: {part / whole:.2%} of the bytes")
    state.snapshot(full=True, changes=True)


class State:
    """A table of arrays with a count and a sum."""

    def __init__(self, keys: int) -> None:
        self._random = numpy.random.default_rng(1)
        self._keys = self._random.permutation(keys) * 7919
        self._ones = pyarrow.array(numpy.ones(CHUNK, numpy.int64))
        self.table = ArrayTable(arrays_of(AGGREGATES, [None, numpy.int64]))
        self._arrays = KeyedArrays(self.table)
        # What the first call loads is no memory of keys.
        self._arrays.add(IntegerKeys(self._keys[:1]), [None, self._ones[:1]])
        self._before = memory("VmRSS")

    def insert(self) -> float:
        """Add all keys. Return the time for each (ns)."""
        began = time.perf_counter()
        for start in range(0, len(self._keys), CHUNK):
            self._add(self._keys[start : start + CHUNK])
        return (time.perf_counter() - began) / len(self._keys) * 1e9

    def change(self, count: int) -> None:
        """Change so many keys at random, each once."""
        chosen = self._random.choice(len(self._keys), count, replace=False)
        for start in range(0, count, CHUNK):
            self._add(self._keys[chosen[start : start + CHUNK]])

    def bytes_per_key(self) -> float:
        """Return how much memory a key takes."""
        return (memory("VmRSS") - self._before) / len(self._keys)

    def snapshot(self, full: bool, changes: bool = False) -> int:
        """Write a snapshot in another thread, and print how it went. Return its bytes.

        `changes`: the keys go on changing, 10,000 at a time.
        """
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        before, began = memory("VmRSS"), time.perf_counter()
        frozen = self.table.freeze(full)
        froze_ms = (time.perf_counter() - began) * 1e3
        written: list[int] = []
        discarded: Any = Discarded()
        writer = threading.Thread(
            target=lambda: written.append(bytes_of(write_keyed(discarded, "", {"t": frozen}, KeyGroups(128))))
        )
        writer.start()
        changed = 0
        while writer.is_alive():
            if changes:
                self._add(self._keys[self._random.integers(0, len(self._keys), 10_000)])
                changed += 10_000
            time.sleep(0.001)
        writer.join()
        frozen.release()
        more = (memory("VmHWM") - before) / max(before - self._before, 1)
        took = time.perf_counter() - began
        kind = f"{'full' if full else 'incremental'} snapshot, {changed:,} changes meanwhile"
        print(f"  {kind}: {froze_ms:.2f} ms in the task, {took:.1f} s in all, {more:.0%} more memory")
        return written[0]

    def _add(self, keys: Any) -> None:
        self._arrays.add(IntegerKeys(keys), [None, self._ones[: len(keys)]])


class Discarded:
    """A storage that keeps nothing."""

    path = ""

    def create(self, name: str, shared: bool) -> Any:
        """Return a file."""
        return self

    def write(self, data: bytes) -> None:
        """Take data."""

    def close(self) -> None:
        """Complete the file."""

    def abort(self) -> None:
        """Remove the file."""


def bytes_of(writing: Iterator[None]) -> int:
    """Write a file, and return its size."""
    while True:
        try:
            next(writing)
        except StopIteration as end:
            size: int = end.value.bytes
            return size


def memory(figure: str) -> float:
    """Return a figure of this process's memory (bytes)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(figure))) * 1024


KEYED = Types.ROW_NAMED(["key", "n"], [Types.LONG(), Types.LONG()])
FEW, MANY = 1000, 1_000_000


def keyed_batch(keys: int, numbers: range) -> Any:
    """Return records with all keys in turn, in an order without cache locality."""
    every = numpy.arange(numbers.start, numbers.stop, numbers.step)
    return pyarrow.RecordBatch.from_pydict({"key": every * 2654435761 % keys, "n": every})


def keyed_rows(keys: int, numbers: range) -> list[Row]:
    """Return the same records as rows."""
    return [Row(**record) for record in keyed_batch(keys, numbers).to_pylist()]


def measured_job(arguments: argparse.Namespace) -> float:
    """Return the records/s of a job, after every key has come."""
    source = ChunkSource(partial(keyed_rows, arguments.keys), make_batch=partial(keyed_batch, arguments.keys))

    def build(env: StreamExecutionEnvironment) -> Any:
        records = env.from_source(source, WatermarkStrategy.no_watermarks(), "records", type_info=KEYED).as_columns()
        return records.key_by("key").aggregate({"count": "count", "sum": ("n", "sum")})

    warm_up = arguments.keys * 4
    return measure(arguments, build, warm_up_records=warm_up, takes_batches=True).arrivals.records_per_s


def compare_jobs(runs: int, others: Sequence[str]) -> None:
    """Print the medians of both numbers of keys, by turns, each run in a process of its own."""
    rates: dict[int, list[float]] = {FEW: [], MANY: []}
    for _ in range(runs):
        for keys, found in rates.items():
            command = [sys.executable, "-m", "benchmarks.column_state", "--jobs", "--keys", str(keys), *others]
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            found.append(float(json.loads(printed.splitlines()[-1])["records_per_s"]))
            print(f"{keys:,} keys: {found[-1] / 1e6:.2f} million records/s", flush=True)
    few, many = (statistics.median(found) for found in rates.values())
    print(json.dumps({"few_keys": few, "many_keys": many, "ratio": many / few}))


def jobs() -> None:
    """Measure jobs, by the options."""
    parser = options(__doc__)
    parser.add_argument("--jobs", action="store_true")
    parser.add_argument("--keys", type=int, help="one job, with so many keys")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.keys is None:
        others = ["--warm-up", str(arguments.warm_up), "--seconds", str(arguments.seconds)]
        compare_jobs(arguments.runs, others)
    else:
        tell({"records_per_s": measured_job(arguments)})


if __name__ == "__main__":
    if "--jobs" in sys.argv:
        jobs()
    else:
        for number in [int(sys.argv[1])] if len(sys.argv) > 1 else [1_000_000, 25_000_000]:
            main(number)
