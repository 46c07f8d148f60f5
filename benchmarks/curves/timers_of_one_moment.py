"""Timers in RocksDB that share a timestamp: CPU time to register and to fire each. A timer per key at a window's end.

Each timer has a key of its own. Maintenance comes every thousand timers, as between the steps of a task.

    python -m benchmarks.curves.timers_of_one_moment
"""

from __future__ import annotations

import tempfile

from benchmarks.curves.curve import Figures, Stopwatch, run
from penstock.engine.runtime.task.vertex import RocksDBSettings
from penstock.engine.runtime.time.timers import StoredTimerQueue
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.stores.rocksdb import rocksdb_stores

_AT_ONCE = 1_000
_MAINTAINED = 2_000
_GROUPS = range(64)
_MOMENT_MS = 1_000


def measure(count: int) -> Figures:
    """Register and fire `count` timers."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        stores = rocksdb_stores(RocksDBSettings(directory, 64 << 20, 50_000))
        backend = RocksDBKeyedStateBackend(lambda: 0, stores, KeyGroups(len(_GROUPS)), _GROUPS)
        timers = StoredTimerQueue(backend.timer_table("timers"))
        backend.tables["timers"] = timers
        watch = Stopwatch()
        for number in range(count):
            timers.register(_MOMENT_MS, number)
            if number % _AT_ONCE == 0:
                backend.maintain(_MAINTAINED)
        register_us = watch.lap_us()
        fired = 0
        laps = []
        while timers.pop_due(_MOMENT_MS) is not None:
            fired += 1
            if fired % _AT_ONCE == 0:
                backend.maintain(_MAINTAINED)
            if fired % max(1, count // 10) == 0:
                laps.append(watch.lap_us())
        backend.close()
        assert fired == count
    tenth = count / 10
    return {
        "register, us each": register_us / count,
        "fire, us each": sum(laps) / count,
        "fire the last tenth": laps[-1] / tenth,
    }


if __name__ == "__main__":
    run(__doc__, (2_500, 25_000, 250_000), measure)
