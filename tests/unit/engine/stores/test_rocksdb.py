"""Databases of tasks: each in its own directory, which is removed with its worker."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter

import pytest

pytest.importorskip("rocksdict")

from penstock.common.files.held_directory import held_together
from penstock.engine.runtime.task.vertex import RocksDBSettings
from penstock.engine.state.backends.rocksdb.store import StoredFile
from penstock.engine.stores.rocksdb import RocksStore, rocksdb_stores
from penstock.engine.stores.shared_copies import directory_name_of

MEMORY = 8 << 20


@pytest.fixture
def store(tmp_path):
    store = RocksStore(str(tmp_path), MEMORY, {})
    yield store
    store.close()


def test_values_are_stored_read_and_removed(store) -> None:
    """State would be lost, or exist again after it was cleared."""
    store.write([(b"a", b"1"), (b"b", b"2"), (b"c", b"")])
    assert [store.get(key) for key in (b"a", b"b", b"c", b"d")] == [b"1", b"2", b"", None]
    store.write([(b"a", None), (b"b", b"3"), (b"missing", None)])
    assert [store.get(key) for key in (b"a", b"b")] == [None, b"3"]


def test_more_entries_than_a_batch_holds(store) -> None:
    """Entries after the first batch would be lost."""
    entries = [(b"k%06d" % n, b"v%d" % n) for n in range(5_001)]
    store.write(entries)
    assert [*store.view().items(b"k")] == entries


def test_a_view_keeps_to_its_moment(store) -> None:
    """A savepoint would mix state from before and after the barrier."""
    store.write([(b"a", b"1"), (b"b", b"2")])
    view = store.view()
    store.write([(b"a", b"9"), (b"b", None), (b"c", b"3")])
    assert [view.get(key) for key in (b"a", b"b", b"c")] == [b"1", b"2", None]
    assert [*view.items(b"")] == [(b"a", b"1"), (b"b", b"2")]


def test_a_prefix_is_walked_and_removed_alone(store) -> None:
    """One state of an operator would clear its neighbour."""
    store.write([(b"\x00\x01a", b"1"), (b"\x00\x01b", b"2"), (b"\x00\x02a", b"3"), (b"\x00\x00\xff", b"0")])
    assert [key for key, _ in store.view().items(b"\x00\x01")] == [b"\x00\x01a", b"\x00\x01b"]
    store.remove_range(b"\x00\x01", b"\x00\x02")
    assert [*store.view().items(b"")] == [(b"\x00\x00\xff", b"0"), (b"\x00\x02a", b"3")]


def test_what_was_removed_behind_a_prefix_is_not_read(tmp_path) -> None:
    """Reading to the end of each list, map and group of timers would read all tombstones after it."""
    store = RocksStore(str(tmp_path), MEMORY, {}, counts=True)
    store.write((b"b%05d" % number, b"1") for number in range(10_000))
    store.write((b"b%05d" % number, None) for number in range(10_000))
    store.write([(b"a1", b"1"), (b"c1", b"1")])
    assert [*store.items(b"a")] == [(b"a1", b"1")]
    assert [*store.items(b"a", b"a2")] == []
    assert store.keys_skipped() == 0
    assert [*store.items(b"b")] == []
    assert store.keys_skipped() >= 10_000, "then they are counted"
    store.close()


def test_linked_files_make_a_database_again(store, tmp_path) -> None:
    """A job could not start from its checkpoint."""
    store.write([(b"k%d" % n, b"v" * n) for n in range(100)])
    files = store.link()
    store.write([(b"later", b"1")])
    assert any(files.is_lasting(name) for name in files.sizes)
    assert not files.is_lasting("MANIFEST-000001")
    content = {
        name: StoredFile([files.read(name, 0, size // 2), files.read(name, size // 2, size)])
        for name, size in files.sizes.items()
    }
    again = RocksStore(str(tmp_path), MEMORY, content)
    assert len([*again.view().items(b"")]) == 100
    assert again.get(b"later") is None
    again.close()
    files.release()


def test_stores_that_begin_with_the_same_files_go_their_own_ways(store, tmp_path) -> None:
    """Subtasks that share the files they were restored from would see each other's state, or lose what one removes."""
    entries = [(b"k%06d" % number, b"v" * 200) for number in range(20_000)]
    store.write(entries)
    files = store.link()
    content = {name: files.read(name, 0, size) for name, size in files.sizes.items()}
    read: Counter[str] = Counter()
    stores = []

    def parts_of(name):
        read[name] += 1
        yield content[name]

    begun = {name: StoredFile(parts_of(name), f"id-{name}") for name in content}
    of_tables = {name: file for name, file in begun.items() if files.is_lasting(name)}
    # As if both began at the same time.
    with held_together(directory_name_of(of_tables), str(tmp_path), 1):
        for _ in range(2):
            begun = {name: StoredFile(parts_of(name), f"id-{name}") for name in content}
            stores.append(RocksStore(str(tmp_path), MEMORY, begun))
    assert read == {name: 1 if files.is_lasting(name) else 2 for name in content}
    one, other = stores
    one.remove_range(b"k000000", b"k019999")
    one.write([(b"k000001", b"new")])
    one.link().release()
    for _ in range(5):  # RocksDB compacts, and removes the files of before
        one.write([(b"k%06d" % number, b"w" * 500) for number in range(20_000)])
        one.link().release()
    assert [*other.items(b"k")] == entries
    one.close()
    assert [*other.view().items(b"k")] == entries
    other.close()
    files.release()


def test_nothing_is_left_of_a_store_that_is_closed(tmp_path) -> None:
    """The local disk would fill with each restart."""
    store = RocksStore(str(tmp_path), MEMORY, {})
    assert len([*tmp_path.iterdir()]) == 1
    store.close()
    assert [*tmp_path.iterdir()] == []


def test_files_that_can_not_be_read_leave_nothing(tmp_path) -> None:
    """Each attempt of a failing restore would leave a copy of the state."""

    def cut_off():
        yield b"x" * 1000
        raise OSError("the store is away")

    with pytest.raises(OSError, match="the store is away"):
        RocksStore(str(tmp_path), MEMORY, {"000001.sst": StoredFile(cut_off(), "its identity")})
    assert [*tmp_path.iterdir()] == []


KILLED = """
import os, signal, sys
from penstock.engine.stores.rocksdb import RocksStore
store = RocksStore(sys.argv[1], 8 << 20, {})
store.write([(b"a", b"1")])
store.link()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_databases_of_killed_workers_are_removed(store, tmp_path) -> None:
    """After some restarts the disk would be full."""
    (own,) = tmp_path.iterdir()
    assert subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)]).returncode == -signal.SIGKILL
    (orphan,) = set(tmp_path.iterdir()) - {own}
    someone_elses = tmp_path / "rocksdb-of-another-program"
    someone_elses.mkdir()
    rocksdb_stores(RocksDBSettings(str(tmp_path), MEMORY, 1_000))
    assert not orphan.exists()
    assert set(tmp_path.iterdir()) == {own, someone_elses}
    store.write([(b"a", b"1")])
    assert store.get(b"a") == b"1"


def test_links_outlive_the_store(tmp_path) -> None:
    """A snapshot that is written while its task closes would fail; or a directory would be left for each."""
    store = RocksStore(str(tmp_path), MEMORY, {})
    store.write([(b"a", b"1")])
    first, second = store.link(), store.link()
    first.release()
    store.close()
    rocksdb_stores(RocksDBSettings(str(tmp_path), MEMORY, 1_000))
    assert all(len(second.read(name, 0, size)) == size for name, size in second.sizes.items())
    second.release()
    assert [*tmp_path.iterdir()] == []


def test_the_directory_is_made(tmp_path) -> None:
    """A job whose `state.backend.rocksdb.localdir` is new on a worker would fail there."""
    directory = tmp_path / "local" / "rocksdb"
    rocksdb_stores(RocksDBSettings(str(directory), MEMORY, 1_000))
    assert directory.is_dir()


def test_a_file_that_is_damaged_is_no_end_of_the_entries(store, tmp_path) -> None:
    """Iterators of RocksDB end silently at a damaged file: a savepoint was written without the rest, which was lost."""
    entries = [(b"k%06d" % number, b"v" * 200) for number in range(20_000)]
    store.write(entries)
    files = store.link()
    content = {name: [bytearray(files.read(name, 0, size))] for name, size in files.sizes.items()}
    largest = max((name for name in content if files.is_lasting(name)), key=lambda name: len(content[name][0]))
    content[largest][0][len(content[largest][0]) // 2] ^= 1
    files.release()
    damaged = RocksStore(
        str(tmp_path), MEMORY, {name: StoredFile(map(bytes, parts)) for name, parts in content.items()}
    )
    view = damaged.view()

    def lookups(get):
        for key, _ in entries:
            if get(key) is None:
                yield key

    for walked in (
        damaged.items(b"k"),
        damaged.items(b"k", entries[1][0]),
        view.items(b"k"),
        lookups(view.get),
        lookups(damaged.get),
    ):
        with pytest.raises(Exception, match="Corruption"):
            list(walked)
    assert len(list(damaged.items(b"k", entries[-1][0]))) == 1, "what is whole is read"
    damaged.close()
