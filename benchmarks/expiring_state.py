"""What a time to live costs: memory for each live entry, and time. Item 25.

Without Spark. A value state gets an entry for each of many keys, and then new values for all of them, once without and
once with a time to live, each in a process of its own. `bytes` is the memory of an entry beyond that of its key and
value, `put_us` the time of a first `update`, `update_us` that of another one. `updated_bytes`
is the memory after those, `examine_us` the time in which an entry whose time is over is found and removed. In RocksDB
the memory is that of its caches too, which may differ by some MB from run to run.

    python -m benchmarks.expiring_state --entries 1000000 --backend rocksdb
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import tempfile
import time
from typing import Any

import psutil  # type: ignore[import-untyped]

from benchmarks.measurement import tell
from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.api.state.ttl import StateTtlConfig
from penstock.common.time import Time
from penstock.engine.runtime.task.vertex import RocksDBSettings
from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.backends.hashmap.backend import HashMapKeyedStateBackend
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.stores.rocksdb import rocksdb_stores

_EACH_MS = 50
"""How many entries are written in a millisecond of the clock."""
_AT_ONCE = 2_000
_VALUE = 1.5


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def now_ms(self) -> int:
        """Return the time as a clock does: each time a new int."""
        return int(str(self.now))


def descriptor_of(ttl: bool) -> ValueStateDescriptor:
    """Return the state."""
    descriptor = ValueStateDescriptor("value")
    if ttl:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    return descriptor


def resident() -> int:
    """Return the memory of this process in bytes."""
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def backend_of(kind: str, clock: Clock, directory: str) -> KeyedStateBackend:
    """Return an empty backend."""
    if kind == "heap":
        return HashMapKeyedStateBackend(clock.now_ms)
    stores = rocksdb_stores(RocksDBSettings(directory, 64 << 20, 50_000))
    return RocksDBKeyedStateBackend(clock.now_ms, stores, KeyGroups(128))


def measure(entries: int, ttl: bool, kind: str, directory: str, answers: Any) -> None:
    """Measure in this process; answers with the figures."""
    told: dict[str, float] = {}
    clock = Clock()
    keys = list(range(1_000_000, 1_000_000 + entries))
    before = resident()
    backend = backend_of(kind, clock, directory)
    state = backend.state(descriptor_of(ttl))

    def write(name: str) -> None:
        began = time.thread_time()
        for position, backend.key in enumerate(keys):
            if position % _EACH_MS == 0:
                clock.now += 1
            if position % _AT_ONCE == 0 and kind != "heap":
                backend.maintain(2 * _AT_ONCE)
            state.update(_VALUE)
        told[name] = (time.thread_time() - began) / entries * 1e6

    write("put_us")
    told["bytes"] = (resident() - before) / entries
    write("update_us")
    told["updated_bytes"] = (resident() - before) / entries
    if ttl:
        clock.now += 3_600_000
        began, turns = time.thread_time(), 0
        while backend.maintenance_due_ms() is not None:
            clock.now = max(clock.now, backend.maintenance_due_ms() or 0)
            backend.maintain(_AT_ONCE)
            turns += 1
        told["examine_us"] = (time.thread_time() - began) / entries * 1e6
        assert not list(backend.keys(descriptor_of(ttl)))
    backend.close()
    answers.put(told)


def main() -> None:
    """Measure, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--backend", choices=["heap", "rocksdb"], default="heap")
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    told: dict[str, float] = {}
    for name, ttl in (("without", False), ("with", True)):
        answers = context.Queue()
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
            process = context.Process(
                target=measure, args=(arguments.entries, ttl, arguments.backend, directory, answers)
            )
            process.start()
            told |= {f"{name}_{figure}": value for figure, value in answers.get().items()}
            process.join()
    told["ttl_bytes"] = told["with_bytes"] - told["without_bytes"]
    told["ttl_updated_bytes"] = told["with_updated_bytes"] - told["without_updated_bytes"]
    tell(told)


if __name__ == "__main__":
    main()
