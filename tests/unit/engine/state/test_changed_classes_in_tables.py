"""State of a job, in all of its forms, that is restored by a program whose classes have changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.engine.state.changed_classes import MODULE, fields_of, source, use
from tests.unit.engine.state.written_state import Subtask, files_in_memory
from tests.unit.plain_buffers import encoded

from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.manifest import packed, unpacked
from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, Header
from penstock.engine.runtime.network.channel_log import ChannelLog, chunks_for
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.partitioners import ForwardPartitioner
from penstock.engine.runtime.network.set_aside import BufferQueue
from penstock.engine.state.handles import KeyedFile, Redistribution
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.operator_state import NamedList
from penstock.engine.state.snapshot.files import read_items, write_lists
from penstock.hosts.simulator.storage import MemoryStorage
from penstock.state_processor.new_tables import finished

VALUE, LIST, MAP = ValueStateDescriptor("value"), ListStateDescriptor("list"), MapStateDescriptor("map")
FORMS = [
    ("hashmap", "checkpoint"), ("hashmap", "increment"), ("hashmap", "savepoint"),
    ("rocksdb", "checkpoint"), ("rocksdb", "increment"), ("rocksdb", "store"),
]  # fmt: skip
"""Backends, and what state is restored from; of "store" all entries are in RocksDB's own files."""
BEFORE = ("number: int", "paid: int = 0")
AFTER = ("number: int", "tip: int = -1", "paid: int = 0")
SOME_KINDS = [
    "dataclass",
    "frozen dataclass with slots",
    "NamedTuple",
    "array-like Struct",
    "attrs class",
    "pydantic model",
]
"""Kinds that pickle stores in different ways."""
HASHABLE = ["frozen dataclass", "frozen dataclass with slots", "NamedTuple"]
"""Kinds that may be keys."""


@pytest.fixture(autouse=True)
def _program() -> Iterator[None]:
    yield
    sys.modules.pop(MODULE, None)


@pytest.fixture
def storage() -> MemoryStorage:
    return files_in_memory()


def in_store(subtask: Subtask) -> None:
    """Write all entries to the store."""
    for table in subtask.backend.tables.values():
        table.freeze(False).release()
    while subtask.backend.compact(1_000):
        pass


def snapshot(subtask: Subtask, form: str, keys: list[Any], put: Any) -> list[list[KeyedFile]]:
    """Write state of each key, half of it in an increment if that is the form. Returns the files."""
    half = len(keys) // 2 if form == "increment" else len(keys)
    for part in (keys[:half], keys[half:]):
        for subtask.backend.key in part:
            put(subtask.backend)
        if form == "store":
            in_store(subtask)
        if form != "savepoint" and part:
            subtask.freeze(form == "store")()
    return [[file] for file in subtask.savepoint("savepoint")] if form == "savepoint" else [subtask.chain]


@pytest.mark.parametrize(("backend", "form"), FORMS)
@pytest.mark.parametrize("kind", SOME_KINDS)
def test_values_elements_and_entries_keep_their_fields(
    kind: str, backend: str, form: str, storage: MemoryStorage
) -> None:
    """A backend, or a kind of state, would read fields by their position."""
    make = use(source(kind, *BEFORE)).Thing

    def put(of: Any) -> None:
        thing = make(number=of.key, paid=250)
        of.state(VALUE).update(thing)
        of.state(LIST).update([thing, thing])
        of.state(MAP).put("k", thing)

    subtask = Subtask(backend, storage)
    chains = snapshot(subtask, form, list(range(6)), put)
    use(source(kind, *AFTER))
    back = subtask.restored(chains).backend
    for back.key in range(6):
        things = [back.state(VALUE).value(), *back.state(LIST).get(), back.state(MAP).get("k")]
        assert len(things) == 4
        for thing in things:
            assert fields_of(thing, "number", "tip", "paid") == [back.key, -1, 250]


@pytest.mark.parametrize("descriptor", [VALUE, LIST, MAP], ids=lambda one: one.name)
@pytest.mark.parametrize(("backend", "form"), FORMS)
@pytest.mark.parametrize("kind", ["dataclass", "NamedTuple"])
def test_fields_without_a_default_are_refused_by_the_restore(
    kind: str, backend: str, form: str, descriptor: Any, storage: MemoryStorage
) -> None:
    """The job would start, and fail hours later, at the first record of a key with an old value."""
    make = use(source(kind, *BEFORE)).Thing

    def put(of: Any) -> None:
        thing, state = make(number=of.key, paid=250), of.state(descriptor)
        if descriptor is VALUE:
            state.update(thing)
        elif descriptor is LIST:
            state.update([thing])
        else:
            state.put("k", thing)

    subtask = Subtask(backend, storage)
    chains = snapshot(subtask, form, list(range(6)), put)
    use(source(kind, "number: int", "tip: int", "paid: int = 0"))
    with pytest.raises(
        CheckpointError, match="fields number, paid, but the class now has the fields number, tip, paid"
    ):
        subtask.restored(chains)


def written_by_key(kind: str, backend: str, form: str, storage: MemoryStorage, *classes: str) -> Any:
    """Return a restore of state of twenty keys of a class that has changed since."""
    make = use(classes[0]).Thing
    subtask = Subtask(backend, storage)
    keys = [make(number=number, paid=250) for number in range(20)] if "Enum" not in kind else list(make)
    chains = snapshot(subtask, form, keys, lambda of: of.state(VALUE).update("x"))
    use(classes[1])
    return lambda: subtask.restored(chains).backend


@pytest.mark.parametrize(("backend", "form"), FORMS)
@pytest.mark.parametrize("kind", HASHABLE)
def test_keys_with_other_fields_are_refused(kind: str, backend: str, form: str, storage: MemoryStorage) -> None:
    """The state of all keys would be lost, silently: they belong to other key groups."""
    restore = written_by_key(kind, backend, form, storage, source(kind, *BEFORE), source(kind, *AFTER))
    with pytest.raises(CheckpointError, match=r"'value' has entries of Thing\(.*that would no longer be found"):
        restore()


@pytest.mark.parametrize(("backend", "form"), FORMS)
@pytest.mark.parametrize("kind", HASHABLE)
def test_keys_whose_class_is_the_same_are_found(kind: str, backend: str, form: str, storage: MemoryStorage) -> None:
    """A job with such keys could not be restored."""
    method = "\n    def shown(self): return 1"
    restore = written_by_key(kind, backend, form, storage, source(kind, *BEFORE), source(kind, *BEFORE) + method)
    back = restore()
    for number in range(20):
        back.key = sys.modules[MODULE].Thing(number=number, paid=250)  # type: ignore[attr-defined]
        assert back.state(VALUE).value() == "x"


MEMBERS = "class Thing(enum.{}):\n    " + "\n    ".join(f"M{number} = enum.auto()" for number in range(12))


@pytest.mark.parametrize(("backend", "form"), FORMS)
def test_members_of_enums_as_keys(backend: str, form: str, storage: MemoryStorage) -> None:
    """State would belong to another member, or be searched in another key group."""
    text = MEMBERS.format("Enum")
    more = text.replace("    M0", "    NEW = enum.auto()\n    M0")
    back = written_by_key("Enum", backend, form, storage, text, more)()
    thing: Any = sys.modules[MODULE].Thing  # type: ignore[attr-defined]
    back.key = thing.NEW
    assert back.state(VALUE).value() is None
    for back.key in list(thing)[1:]:
        assert back.state(VALUE).value() == "x"
    # These are keys by their values, as numbers are.
    text, more = text.replace("Enum", "IntEnum"), more.replace("Enum", "IntEnum")
    restore = written_by_key("IntEnum", backend, form, files_in_memory(), text, more)
    with pytest.raises(CheckpointError, match="would no longer be found"):
        restore()


@pytest.mark.parametrize(("backend", "form"), FORMS)
@pytest.mark.parametrize("kind", ["frozen dataclass", "NamedTuple", "attrs class"])
def test_windows_of_a_class_that_has_changed(kind: str, backend: str, form: str, storage: MemoryStorage) -> None:
    """A window would be searched in RocksDB under other bytes than its stored ones."""
    make = use(source(kind.replace("attrs class", "frozen attrs class"), *BEFORE)).Thing
    subtask = Subtask(backend, storage)

    def put(of: Any) -> None:
        of.namespace = make(number=5, paid=6)
        of.state(VALUE, True).update("x")

    chains = snapshot(subtask, form, [1, 2], put)
    now = use(source(kind.replace("attrs class", "frozen attrs class"), *AFTER)).Thing
    if form == "store":
        with pytest.raises(CheckpointError, match=r"entries of \(1, Thing\(.* would no longer be found"):
            subtask.restored(chains)
        return
    back = subtask.restored(chains).backend
    back.namespace = now(number=5, tip=-1, paid=6)
    for back.key in (1, 2):
        assert back.state(VALUE, True).value() == "x"


@pytest.mark.parametrize("kind", SOME_KINDS)
def test_operator_state_enumerators_and_commits_keep_their_fields(kind: str, storage: MemoryStorage) -> None:
    """Splits and transactions of a user's own source or sink would be read by position."""
    thing = use(source(kind, *BEFORE)).Thing(number=7, paid=250)
    named = NamedList("list", Redistribution.SPLIT, [thing, {"k": [thing]}], None)
    file = finished(write_lists(storage, "lists", [named]))
    text = packed([thing])
    use(source(kind, *AFTER))
    first, second = read_items(storage, file.path, file.lists[0])
    for one in (first, second["k"][0], unpacked(text)[0]):
        assert fields_of(one, "number", "tip", "paid") == [7, -1, 250]


@pytest.mark.parametrize("kind", SOME_KINDS)
def test_records_in_flight_keep_their_fields(kind: str) -> None:
    """An unaligned checkpoint would shift the values of the records that it holds."""
    thing = use(source(kind, *BEFORE)).Thing(number=7, paid=250)
    edge = EdgeInfo(3, 1, source_parallelism=1, target_parallelism=1, source_level=0, target_level=1, widths=(1, 1))
    log = ChannelLog([edge], 1, BufferQueue(1 << 20, None))
    for values in ([thing], [1, "x"]):
        log.append(encoded(Header(NO_KEY_GROUP, 3, 0, 0, 0, 0), [(values, None)]))
    stored = list(log)
    use(source(kind, *AFTER))
    edges = [(edge, ForwardPartitioner())]
    (found,), (plain,) = (chunks_for(one, edges, subtask=0, parallelism=1, key_groups=KeyGroups(8)) for one in stored)
    assert fields_of(found.values[0], "number", "tip", "paid") == [7, -1, 250] and plain.values == [1, "x"]
