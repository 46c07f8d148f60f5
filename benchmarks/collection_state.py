"""Map and list state by size, for both backends: the time of single accesses before and after a checkpoint.

Without Spark. One key has a map, or a list, of a given size; accesses are to entries all over the map. `before_*` is
measured before the first checkpoint, `after_*` when one was written and its layers were compacted; `while_*` while a
snapshot is being written. `put_and_spill` includes what writes entries to the store. With RocksDB, all but recent
changes are in the store. Small maps are those of many keys. All times in microseconds of CPU for each access, or for
each element of an iteration.

    python -m benchmarks.collection_state --backend rocksdb --entries 10000
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable
from typing import Any

from benchmarks.measurement import tell
from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.engine.runtime.task.vertex import RocksDBSettings
from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.backends.hashmap.backend import HashMapKeyedStateBackend
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.stores.rocksdb import rocksdb_stores

_BUDGET_S = 0.3
_ACCESSES_MAX = 50_000
_STRIDE = 7_919
_SMALL_KEYS = 20_000
_SMALL_ENTRIES = 5
_AT_ONCE = 1_000
_CACHED_ENTRIES = 1_000
_SPILLED = 200_000


def per_access_us(act: Callable[[int], Any]) -> float:
    """The time of one call with each of many numbers, as many as fit into the budget."""
    act(0)
    done, began = 0, time.thread_time()
    while done < _ACCESSES_MAX and time.thread_time() - began < _BUDGET_S:
        for number in range(done, done + (_AT_ONCE if done else 1)):
            act(number)
        done += _AT_ONCE if done else 1
    return (time.thread_time() - began) / done * 1e6


def settled(backend: KeyedStateBackend) -> None:
    """Spill and compact all that waits for it."""
    while backend.compact(_AT_ONCE):
        pass
    for _ in range(100):
        backend.maintain(_AT_ONCE)


def large(backend: KeyedStateBackend, entries: int, told: dict[str, float]) -> None:
    """One key with a large map and a large list."""
    backend.key = "key"
    names = backend.state(MapStateDescriptor("map"))
    elements = backend.state(ListStateDescriptor("list"))
    for start in range(0, entries, _AT_ONCE):
        names.put_all({number: number for number in range(start, min(start + _AT_ONCE, entries))})
        elements.add_all(list(range(start, min(start + _AT_ONCE, entries))))
        if isinstance(backend, RocksDBKeyedStateBackend) and start % (50 * _AT_ONCE) == 0:
            backend.maintain(100 * _AT_ONCE)
    settled(backend)

    def all_below() -> None:
        """Have all of it below the current layer: with RocksDB, in the store."""
        for table in backend.tables.values():
            table.freeze(False).release()
        settled(backend)

    if isinstance(backend, RocksDBKeyedStateBackend):
        all_below()

    def accesses(when: str) -> None:
        told[f"{when}_get"] = per_access_us(lambda number: names.get(number * _STRIDE % entries))
        told[f"{when}_put"] = per_access_us(lambda number: names.put(number * _STRIDE % entries, -number))
        told[f"{when}_add"] = per_access_us(elements.add)

    def iterations(when: str) -> None:
        for name, read in (("items", names.items), ("list", elements.get)):
            began = time.thread_time()
            count = sum(1 for _ in read())
            told[f"{when}_{name}_each"] = (time.thread_time() - began) / count * 1e6

    def spilled() -> float:
        # What was put before is not to be counted.
        all_below()
        began = time.thread_time()
        for number in range(_SPILLED):
            names.put(number * _STRIDE % entries, number)
            if number % _AT_ONCE == 0:
                backend.maintain(_AT_ONCE)
        all_below()
        return (time.thread_time() - began) / _SPILLED * 1e6

    accesses("before")
    iterations("before")
    told["put_and_spill"] = spilled()
    frozen = [table.freeze(False) for table in backend.tables.values()]
    accesses("while")
    for table in frozen:
        table.release()
    for table in [table.freeze(False) for table in backend.tables.values()]:
        table.release()
    settled(backend)
    accesses("after")
    iterations("after")


def small(backend: KeyedStateBackend, told: dict[str, float]) -> None:
    """Many keys with small maps and lists, and a value each."""
    names = backend.state(MapStateDescriptor("small map"))
    elements = backend.state(ListStateDescriptor("small list"))
    value = backend.state(ValueStateDescriptor("value"))

    def of_map(number: int) -> None:
        backend.key = number % _SMALL_KEYS
        field = number // _SMALL_KEYS % _SMALL_ENTRIES
        names.put(field, (names.get(field) or 0) + 1)

    def of_list(number: int) -> None:
        backend.key = number % _SMALL_KEYS
        elements.add(number)
        if number // _SMALL_KEYS % _SMALL_ENTRIES == _SMALL_ENTRIES - 1:
            elements.clear()

    def of_value(number: int) -> None:
        backend.key = number % _SMALL_KEYS
        value.update((value.value() or 0) + 1)

    def read(number: int) -> None:
        backend.key = number % _SMALL_KEYS
        for _ in names.items():
            pass

    def accesses(when: str) -> None:
        told[f"{when}_small_map"] = per_access_us(of_map)
        told[f"{when}_small_items"] = per_access_us(read)
        told[f"{when}_small_list"] = per_access_us(of_list)
        told[f"{when}_value"] = per_access_us(of_value)

    for number in range(_SMALL_KEYS * _SMALL_ENTRIES):
        of_map(number)
    accesses("before")
    for table in [table.freeze(False) for table in backend.tables.values()]:
        table.release()
    settled(backend)
    accesses("after")


def main() -> None:
    """Measure, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", choices=["hashmap", "rocksdb"], default="hashmap")
    parser.add_argument("--entries", type=int, default=10_000, help="0: small maps of many keys")
    arguments = parser.parse_args()
    gc.freeze()
    key_groups = KeyGroups(128)
    told: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        stores = rocksdb_stores(RocksDBSettings(directory, 64 << 20, 50_000))
        backend: KeyedStateBackend = (
            HashMapKeyedStateBackend(lambda: 0)
            if arguments.backend == "hashmap"
            else RocksDBKeyedStateBackend(lambda: 0, stores, key_groups)
        )
        if arguments.entries:
            large(backend, arguments.entries, told)
        else:
            small(backend, told)
        backend.close()
    tell(told)


if __name__ == "__main__":
    main()
