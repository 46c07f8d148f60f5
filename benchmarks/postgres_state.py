"""What an access to keyed state costs in PostgreSQL and in RocksDB: updates, checkpoints, uncached reads.

One subtask's backend without a job, with a server on this machine. `python -m benchmarks.postgres_state`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from random import Random
from typing import Any

from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.common.typeinfo import Types
from penstock.engine.runtime.task.vertex import PostgresSettings, RocksDBSettings
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.engine.state.backends.versioned.backend import VersionedKeyedStateBackend
from penstock.engine.state.backends.versioned.store import StoreOwner
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.stores.postgres import postgres_stores
from penstock.engine.stores.rocksdb import rocksdb_stores
from penstock.testing.postgres_server import PostgresServer

_CACHED = 20_000
_READS = 5_000
_GROUPS = KeyGroups(128)


def rates(backend: RocksDBKeyedStateBackend, keys: int) -> dict[str, float]:
    """Accesses a second, by what they are."""
    count = backend.state(ValueStateDescriptor("count", Types.LONG()))
    # In no order, as keys come: each is written once.
    order = list(range(keys))
    Random(1).shuffle(order)

    def write(value: int) -> None:
        for number, backend.key in enumerate(order):
            count.update(value)
            if number % 2_000 == 0:
                backend.maintain(2_000)
        while backend.maintenance_due_ms() == 0:
            backend.maintain(2_000)

    found = {}
    for name, value in (("new keys, written", 1), ("known keys, written", 2)):
        began = time.perf_counter()
        write(value)
        found[name] = keys / (time.perf_counter() - began)
    for backend.key in order[:_CACHED]:
        count.update(3)
    began = time.perf_counter()
    frozen = backend.freeze_store(1)
    assert frozen is not None
    sync_ms = (time.perf_counter() - began) * 1e3
    frozen.link()
    found["written by a checkpoint"] = _CACHED / (time.perf_counter() - began)
    frozen.release()
    for table in frozen.above.values():
        table.release()
    print(f"  frozen in {sync_ms:.2f} ms")
    distant = order[_CACHED : _CACHED + _READS]
    began = time.perf_counter()
    for backend.key in distant:
        assert count.value() == 2
    found["read, not cached"] = _READS / (time.perf_counter() - began)
    return found


def main() -> None:
    """Print both rates and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=200_000)
    keys = parser.parse_args().keys
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory, PostgresServer(fsync=True) as server:
        stores = rocksdb_stores(RocksDBSettings(directory, 64 << 20, _CACHED))
        rocks = RocksDBKeyedStateBackend(lambda: 0, stores, _GROUPS)
        measured["rocksdb"] = rates(rocks, keys)
        rocks.close()
        versioned = postgres_stores(PostgresSettings(server.url, cached_entries=_CACHED))
        postgres = VersionedKeyedStateBackend(lambda: 0, versioned, _GROUPS, StoreOwner("bench", "one", 0, 128))
        measured["postgres"] = rates(postgres, keys)
        postgres.close()
    for name, rate in measured["rocksdb"].items():
        other = measured["postgres"][name]
        print(f"{name:26} rocksdb {rate:12,.0f}/s   postgres {other:10,.0f}/s   1 : {rate / other:.1f}")


if __name__ == "__main__":
    main()
