"""Many timers: memory, and the CPU time to register, delete and fire them, on the heap and in RocksDB. Item 26.

Without Spark. Each timer has a key of its own, at a random time. Between the phases there is a checkpoint, of which
only the synchronous part counts, and maintenance comes every thousand timers, as between the steps of a task.
`bytes` is the memory of a timer when all are registered, `grown_mb` the most that the process has grown by at any time.

    python -m benchmarks.many_timers --backend rocksdb --timers 10000000
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from random import Random

import psutil  # type: ignore[import-untyped]

from benchmarks.measurement import tell
from penstock.engine.runtime.task.vertex import RocksDBSettings
from penstock.engine.runtime.time.timers import HeapTimerQueue, StoredTimerQueue, TimerQueue
from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.backends.hashmap.backend import HashMapKeyedStateBackend
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.stores.rocksdb import rocksdb_stores

_AT_ONCE = 1_000
_MAINTAINED = 2_000
_CHECKPOINT_EACH = 1_000_000
_RANGE_MS = 86_400_000
_GROUPS = range(64)
_DELETED_OF = 10


class Measured:
    """Timers, and what they take."""

    def __init__(self, backend: KeyedStateBackend, timers: TimerQueue) -> None:
        self.backend, self.timers = backend, timers
        self.told: dict[str, float] = {}
        self._before = resident()
        self.most = 0

    def grown(self) -> int:
        """Return by how many bytes the process has grown."""
        grown = resident() - self._before
        self.most = max(self.most, grown)
        return grown

    def tick(self, number: int) -> None:
        """What a task does between its steps."""
        if number % _AT_ONCE == 0:
            self.backend.maintain(_MAINTAINED)
            self.backend.compact(_MAINTAINED)
        if number % _CHECKPOINT_EACH == 0:
            self.timers.freeze(False).release()
            self.grown()

    def took(self, name: str, began: float, count: int) -> None:
        """Note the time of each of `count` timers."""
        self.told[name] = (time.process_time() - began) / count * 1e6

    def run(self, count: int) -> None:
        """Register `count` timers, delete some of them, and fire the rest."""
        random, timers = Random(1), self.timers
        began = time.process_time()
        for number in range(count):
            timers.register(random.randrange(_RANGE_MS), number)
            self.tick(number)
        self.took("register_us", began, count)
        self.told["bytes"] = self.grown() / count
        random = Random(1)
        began = time.process_time()
        for number in range(count):
            timestamp = random.randrange(_RANGE_MS)
            if number % _DELETED_OF == 0:
                timers.delete(timestamp, number)
                self.tick(number)
        self.took("delete_us", began, count // _DELETED_OF)
        began, fired, latest = time.process_time(), 0, 0
        while (timer := timers.pop_due(_RANGE_MS)) is not None:
            assert timer[0] >= latest
            latest = timer[0]
            fired += 1
            self.tick(fired)
        self.took("fire_us", began, fired)
        assert fired == count - (count + _DELETED_OF - 1) // _DELETED_OF
        self.told["grown_mb"] = max(self.most, self.grown()) / 1e6


def resident() -> int:
    """Return the memory of this process in bytes."""
    return int(psutil.Process().memory_info().rss)


def main() -> None:
    """Measure, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", choices=["heap", "rocksdb"], default="rocksdb")
    parser.add_argument("--timers", type=int, default=1_000_000)
    arguments = parser.parse_args()
    gc.disable()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        if arguments.backend == "heap":
            measured = Measured(HashMapKeyedStateBackend(), HeapTimerQueue())
        else:
            stores = rocksdb_stores(RocksDBSettings(directory, 64 << 20, 50_000))
            backend = RocksDBKeyedStateBackend(lambda: 0, stores, KeyGroups(len(_GROUPS)), _GROUPS)
            measured = Measured(backend, StoredTimerQueue(backend.timer_table("timers")))
        measured.backend.tables["timers"] = measured.timers
        measured.run(arguments.timers)
        measured.backend.close()
    tell(measured.told)


if __name__ == "__main__":
    main()
