"""A store without versions, as a dict, behind a write-ahead log: which of the two holds an entry, and when."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from penstock.common.errors import CheckpointError
from penstock.engine.state.backends.versioned.logged import Entry, LoggedStore
from penstock.engine.state.backends.versioned.store import LoggedEntry, StoreOwner, StoreVersion

TABLE = (7).to_bytes(4, "big")


class Plain:
    """The shared store of all subtasks of an operator: a dict, and the run that owns it."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, int, bytes], bytes] = {}
        self.run = 0
        self.asked = 0


class OnPlain:
    """One run's access to it."""

    def __init__(self, plain: Plain, run: int) -> None:
        self._plain = plain
        self._run = run

    def get(self, table: str, group: int, key: bytes) -> bytes | None:
        self._plain.asked += 1
        return self._plain.entries.get((table, group, key))

    def sample(self, table: str, groups: range) -> Iterator[tuple[int, bytes, bytes]]:
        for group in groups:
            yield from ((group, key, value) for key, value in itertools.islice(self.items(table, group, b""), 1))

    def items(self, table: str, group: int, prefix: bytes) -> Iterator[Entry]:
        for (of_table, of_group, key), value in self._plain.entries.items():
            if (of_table, of_group) == (table, group) and key.startswith(prefix):
                yield key, value

    def begin(self, versions: Sequence[StoreVersion]) -> None:
        self._plain.run = self._run
        if not versions:
            self._plain.entries.clear()

    def apply(self, groups: range, version: int, entries: Sequence[LoggedEntry]) -> None:
        if self._run != self._plain.run:
            raise CheckpointError("fenced")
        for entry in entries:
            assert entry.group in groups
            if entry.value is None:
                self._plain.entries.pop((entry.table, entry.group, entry.key), None)
            else:
                self._plain.entries[entry.table, entry.group, entry.key] = entry.value

    def close(self) -> None:
        pass


def opened(plain: Plain, run: int = 1) -> LoggedStore:
    store = LoggedStore(lambda: OnPlain(plain, run), StoreOwner("job", "operator", 0, 4, run), "dict", cached_entries=4)
    store.name_table(TABLE, "state")
    return store


def key(number: int) -> bytes:
    return TABLE + (number % 4).to_bytes(2, "big") + bytes([number])


@pytest.mark.parametrize("seed", range(30))
def test_it_is_a_map_with_versions(seed: int) -> None:
    """State would be that of another checkpoint, after checkpoints that failed or were not reported."""
    random, plain = Random(seed), Plain()
    store, run = opened(plain), 1
    expected: dict[bytes, bytes] = {}
    complete: tuple[StoreVersion, dict[bytes, bytes]] | None = None
    for _ in range(60):
        what = random.randrange(8)
        changes = {key(random.randrange(12)): random.choice((None, random.randbytes(2))) for _ in range(3)}
        if what < 5:
            store.write(changes.items())
        elif what < 7:
            # Layers of the moment of the freeze are written later, when newer versions have begun.
            version = store.seal()
            store.write_at(version, changes.items())
            written = store.all_written(version)
        else:
            if complete is None:
                continue
            run += 1
            store = opened(plain, run)
            store.begin_with([complete[0]])
            expected, changes = dict(complete[1]), {}
        for name, value in changes.items():
            expected.pop(name, None)
            if value is not None:
                expected[name] = value
        if what in (5, 6) and random.randrange(3):
            complete = written, dict(expected)
            if random.randrange(2):
                store.completed(written.version)
                in_store = {TABLE + group.to_bytes(2, "big") + rest for _, group, rest in plain.entries}
                assert in_store == expected.keys()
                assert not store.all_written(store.seal()).log, "what is applied is in no later log"
        assert dict(store.items(TABLE)) == expected
        assert [name for name, _ in store.items(TABLE)] == sorted(expected)
        assert all(store.get(key(number)) == expected.get(key(number)) for number in range(12))


def test_a_view_stays_as_it_was() -> None:
    """A savepoint would hold records from after its barrier."""
    store = opened(Plain())
    store.write([(key(1), b"a"), (key(5), b"b")])
    view = store.view()
    store.write([(key(1), b"c"), (key(5), None), (key(9), b"d")])
    assert list(view.items(TABLE)) == [(key(1), b"a"), (key(5), b"b")]
    assert (view.get(key(1)), view.get(key(9))) == (b"a", None)
    assert list(store.items(TABLE, key(2))) == []
    store.remove_range(key(1), key(9))
    assert list(store.items(TABLE)) == [(key(9), b"d")]


def test_a_predecessor_applies_nothing() -> None:
    """A worker that was considered dead would change the state of its successor."""
    plain = Plain()
    old = opened(plain)
    old.write([(key(1), b"old")])
    version = old.all_written(old.seal())
    new = opened(plain, 2)
    new.begin_with([version])
    old.write([(key(1), b"late")])
    late = old.all_written(old.seal())
    with pytest.raises(CheckpointError):
        old.completed(late.version)
    assert new.get(key(1)) == b"old"


def test_what_was_read_before_is_not_taken_for_what_is_restored() -> None:
    """A key that a task read too early would have no state after a restart."""
    plain = Plain()
    former = opened(plain)
    former.write([(key(1), b"a")])
    version = former.all_written(former.seal())
    store = opened(plain, 2)
    assert store.get(key(1)) is None
    store.begin_with([version])
    assert store.get(key(1)) == b"a"


def test_values_that_are_known_are_not_asked_for_again() -> None:
    """Each first access after a checkpoint would wait for the server."""
    plain = Plain()
    store = opened(plain)
    store.write([(key(1), b"a")])
    store.completed(store.seal().version)
    assert store.get(key(1)) == b"a" and plain.asked == 0
    assert store.get(key(2)) is None and store.get(key(2)) is None and plain.asked == 1
    # As many as are kept, and more.
    for number in range(4, 12):
        store.get(key(number))
    assert store.get(key(1)) == b"a" and plain.asked == 10
