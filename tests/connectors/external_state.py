"""A subtask whose keyed state is in PostgreSQL or Redis, with its checkpoints, as a task takes and restores them."""

from __future__ import annotations

import sys
import uuid
from random import Random
from typing import Any

import pytest
from tests.unit.engine.state.changed_classes import MODULE, source, use

from penstock.api.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.api.windows.window import TimeWindow
from penstock.common.errors import CheckpointError
from penstock.common.typeinfo import Types
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.task.restore import KeyedChain, restore_operator
from penstock.engine.runtime.task.snapshot import OperatorSnapshot, TaskSnapshot
from penstock.engine.runtime.task.vertex import PostgresSettings, RedisSettings
from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.backends.hashmap.backend import HashMapKeyedStateBackend
from penstock.engine.state.backends.versioned.backend import VersionedKeyedStateBackend
from penstock.engine.state.backends.versioned.store import StoreOwner
from penstock.engine.state.handles import KeyedFile, RestoredOperator, store_files_of
from penstock.engine.state.key_groups import KeyGroups, key_group_range
from penstock.engine.stores.postgres import postgres_stores
from penstock.engine.stores.redis import redis_stores
from penstock.hosts.simulator.storage import MemoryStorage
from penstock.state_processor.new_tables import finished

GROUPS = KeyGroups(8)
KEYS = range(20)


class Holder(Operator):
    """An operator that is its backend."""

    def __init__(self, backend: KeyedStateBackend) -> None:
        super().__init__("holder")
        self.backend = backend

    def keyed_tables(self) -> Any:
        return self.backend.tables

    def keyed_schemas(self) -> Any:
        return self.backend.schemas_in_snapshot()

    def keyed_backend(self) -> KeyedStateBackend:
        return self.backend

    def restored_table(self, name: str, schema: str) -> Any:
        return self.backend.restored_table(name, schema)

    def lists(self) -> Any:
        return []

    def restore_lists(self, lists: Any) -> None:
        assert not lists


class Job:
    """A job with one operator, on a server."""

    def __init__(self, url: str, cached: int = 5, retained: int = 1) -> None:
        self.id = uuid.uuid4().hex
        self.settings: Any = PostgresSettings(url, None, None, cached, retained)
        self.stores = postgres_stores(self.settings)
        if url.startswith("redis"):
            self.settings = RedisSettings(url, cached_entries=cached)
            self.stores = redis_stores(self.settings)
        self.storage = MemoryStorage(Random(0), 0)
        self.runs = 0
        self.checkpoints = 0

    def subtask(self, number: int = 0, parallelism: int = 1, run: int | None = None) -> Subtask:
        return Subtask(self, number, parallelism, self.runs if run is None else run)

    def subtask_on_heap(self) -> Subtask:
        return Subtask(self, 0, 1, 0, HashMapKeyedStateBackend())


class Subtask:
    """A subtask in one run."""

    def __init__(
        self, job: Job, number: int, parallelism: int, run: int, backend: KeyedStateBackend | None = None
    ) -> None:
        self.job = job
        self.groups = key_group_range(number, 8, parallelism)
        owner = StoreOwner(job.id, "holder", self.groups.start, self.groups.stop, run)
        self.backend = backend or VersionedKeyedStateBackend(lambda: 0, job.stores, GROUPS, owner)
        self.chain = KeyedChain()
        self.number = number

    def frozen(self, savepoint: str = "") -> TaskSnapshot:
        self.job.checkpoints += 1
        number = self.job.checkpoints
        options = CheckpointOptions(savepoint=savepoint)
        one = OperatorSnapshot("holder", Holder(self.backend), self.chain, options=options, checkpoint_id=number)
        return TaskSnapshot(number, f"{number}-{self.number}-0", [one], key_groups=GROUPS, savepoint=savepoint)

    def written(self, frozen: TaskSnapshot, complete: bool = True) -> list[KeyedFile]:
        state = frozen.written(finished(frozen.write(self.job.storage)))
        assert state is not None
        if complete and not frozen.savepoint:
            self.backend.checkpoint_complete(frozen.checkpoint_id)
        return state.operators["holder"].keyed if state.operators else []

    def checkpoint(self) -> list[KeyedFile]:
        files = self.written(self.frozen())
        if isinstance(self.backend, VersionedKeyedStateBackend):
            # The version, and a list of tables without any entry.
            assert len(store_files_of(files)) == 1 and not any(file.sections for file in files if not file.store_file)
        return files

    def restored(self, *chains: list[KeyedFile]) -> Subtask:
        given = RestoredOperator([*chains])
        restore_operator(
            Holder(self.backend),
            given,
            self.chain,
            groups=self.groups,
            max_parallelism=8,
            storage=self.job.storage,
            in_flight=[],
        )
        return self

    def maintained(self) -> None:
        while self.backend.maintenance_due_ms() == 0:
            self.backend.maintain(3)
        while self.backend.compact(3):
            pass


def states(backend: KeyedStateBackend) -> tuple[Any, ...]:
    return (
        backend.state(ValueStateDescriptor("value", Types.LONG())),
        backend.state(MapStateDescriptor("map", Types.LONG(), Types.LONG())),
        backend.state(ListStateDescriptor("list", Types.LONG())),
        backend.state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())),
        backend.state(ValueStateDescriptor("of window", Types.LONG()), True),
    )


def change(backend: KeyedStateBackend, random: Random, numbers: int) -> None:
    """Some accesses; the same in each backend for one seed."""
    value, entries, elements, total, windowed = states(backend)
    for _ in range(numbers):
        backend.key = random.choice(KEYS)
        start = random.randrange(3) * 10
        backend.namespace = TimeWindow(start, start + 10)
        number, kind = random.randrange(1_000), random.randrange(12)
        if kind < 2:
            value.update((value.value() or 0) + number)
        elif kind < 4:
            entries.put(number % 7, number)
        elif kind == 4:
            entries.remove(number % 7)
        elif kind < 7:
            elements.add(number)
        elif kind == 7:
            elements.update([number, number + 1])
        elif kind == 8:
            total.add(number)
        elif kind == 9:
            windowed.update(number)
        else:
            random.choice((value, entries, elements, windowed)).clear()


def content(backend: KeyedStateBackend) -> dict[Any, Any]:
    value, entries, elements, total, windowed = states(backend)
    found = {}
    for backend.key in KEYS:
        of_windows = []
        for start in (0, 10, 20):
            backend.namespace = TimeWindow(start, start + 10)
            of_windows.append(windowed.value())
        known = value.value(), dict(entries.items()), list(elements.get()), total.get(), of_windows
        if known != (None, {}, [], None, [None, None, None]):
            found[backend.key] = known
    return found


def spread(job: Job, olds: list[list[Any]], before: int, after: int) -> list[Subtask]:
    """The subtasks of the next run, restored from the checkpoint of this one."""
    job.runs += 1
    found = []
    for number in range(after):
        mine = [
            old
            for old, files in enumerate(olds)
            if {*key_group_range(old, 8, before)} & {*key_group_range(number, 8, after)}
        ]
        found.append(job.subtask(number, after).restored(*(olds[old] for old in mine)))
    return found


def check_like_a_heap(job: Job, seed: int) -> None:
    """Do the same at random with a subtask and with one on the heap; both have the same content after each turn."""
    random = Random(seed)
    subtask, heap = job.subtask(), job.subtask_on_heap()
    retained: tuple[Any, Any] | None = None
    for _ in range(14):
        turn = random.randrange(1 << 30)
        for one in (subtask, heap):
            change(one.backend, Random(turn), 25)
        what = random.randrange(5)
        if what == 0:
            subtask.maintained()
        elif what == 1:
            retained = subtask.checkpoint(), heap.written(heap.frozen())
        elif what == 2:
            # A checkpoint that is written while the job continues, and fails or completes.
            frozen, of_heap = subtask.frozen(), heap.frozen()
            change(subtask.backend, Random(turn + 1), 25)
            subtask.backend.maintain(1)
            if turn % 3 == 0:
                frozen.failed()
                of_heap.failed()
            else:
                # Complete, or as if a crash came before the subtask was notified.
                retained = subtask.written(frozen, complete=turn % 3 == 1), heap.written(of_heap)
            change(heap.backend, Random(turn + 1), 25)
        elif what == 3 and retained is not None:
            subtask.backend.close()
            job.runs += 1
            subtask, heap = job.subtask().restored(retained[0]), job.subtask_on_heap().restored(retained[1])
        assert content(subtask.backend) == content(heap.backend)
    subtask.backend.close()


def check_changed_classes(job: Job) -> None:
    """Keys that would be looked for elsewhere, and values that lack a field without a default, are refused."""
    before, same = ("number: int", "paid: int = 0"), "\n    def shown(self): return 1"
    stored, more = source("frozen dataclass", *before), source("frozen dataclass", *before, "tip: int = 0")
    lacks = source("frozen dataclass", *before, "tip: int")
    value = ValueStateDescriptor("of things")

    def written(by_thing: bool) -> list[KeyedFile]:
        make = use(stored).Thing
        subtask = job.subtask()
        for number in range(20):
            thing = make(number=number, paid=250)
            subtask.backend.key = thing if by_thing else number
            subtask.backend.state(value).update(thing)
        files = subtask.checkpoint()
        subtask.backend.close()
        job.runs += 1
        return files

    def restored(files: list[KeyedFile], text: str) -> KeyedStateBackend:
        use(text)
        subtask = job.subtask()
        try:
            subtask.restored(files)
        finally:
            subtask.backend.close()
            job.runs += 1
        return subtask.backend

    try:
        by_thing = written(by_thing=True)
        with pytest.raises(CheckpointError, match=r"'of things' has entries of Thing\(.*that would no longer be found"):
            restored(by_thing, more)
        restored(by_thing, stored + same)
        by_number = written(by_thing=False)
        restored(by_number, more)
        with pytest.raises(CheckpointError, match="paid, but the class now has the fields number, paid, tip"):
            restored(by_number, lacks.replace("paid: int = 0", "paid: int"))
    finally:
        sys.modules.pop(MODULE, None)
