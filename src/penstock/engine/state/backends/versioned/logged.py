"""A store that knows no older versions, behind a write-ahead log: `state.backend.type: redis`.

What is written waits in a log, by version, and is read from there. A snapshot has the log of all versions that are not
known to be in a complete checkpoint; when one is complete, its log is applied to the store. So the store never has
anything that a restart would take back, and values are applied as they are: once or more is the same. A restore applies
the logs of its checkpoint first. Source: Carbone et al., "State Management in Apache Flink" (VLDB 2017), section 4.1,
external state backends without multi-version concurrency control.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from penstock.engine.state.backends.rocksdb.store_files import NUMBERS_GROUP
from penstock.engine.state.backends.versioned.store import LoggedEntry, StoreOwner, StoreVersion

# What an external store has said, or was told, lately: whoever owns key groups is the only one who writes to them.

ABSENT: Any = object()


class RecentValues:
    """Values by key: at least of the `entries` that were used last, at most of twice as many.

    None: the store has no value. Two generations cost less than an order of all entries, which changes with each use.

    One thread reads and writes, another one only writes what the first one asks for not before it is written.
    """

    def __init__(self, entries: int) -> None:
        self._entries = max(entries, 1)
        self._young: dict[bytes, bytes | None] = {}
        self._old: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> Any:
        """The value, None, or ABSENT if it is not known."""
        value = self._young.get(key, ABSENT)
        if value is ABSENT:
            value = self._old.get(key, ABSENT)
            if value is not ABSENT:
                self.put(key, value)
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        """This is the value now."""
        if len(self._young) >= self._entries:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def clear(self) -> None:
        """Nothing is known."""
        self._young, self._old = {}, {}


_PREFIX_BYTES = 4
_GROUP_BYTES = 6
Entry = tuple[bytes, bytes]
Change = tuple[bytes, bytes | None]


class PlainStore(Protocol):
    """What is needed of a store without versions: the state of one subtask, by table and key group. One thread's."""

    def get(self, table: str, group: int, key: bytes) -> bytes | None:
        """The value of a key."""

    def items(self, table: str, group: int, prefix: bytes) -> Iterator[Entry]:
        """All entries of a key group whose keys start with `prefix`, in any order."""

    def begin(self, versions: Sequence[StoreVersion]) -> None:
        """Begin with what these have of the owner's key groups, and with nothing in others.

        What predecessors apply from now on fails. Raises CheckpointError if the store has newer values already.
        """

    def some(self, table: str, groups: range) -> Iterator[tuple[int, bytes, bytes]]:
        """One entry of each key group: its group, key and value."""

    def apply(self, groups: range, version: int, entries: Sequence[LoggedEntry]) -> None:
        """Store values, None removes a key; these key groups are then as of this version.

        Raises CheckpointError if they have another owner.
        """

    def close(self) -> None:
        """Leave the store. What is in it stays."""


class LoggedStore:
    """The state of one subtask of an operator: a store, and the log above it.

    `connect` gives the store, to each thread its own: the task's, and the one that writes snapshots. `cached_entries`:
    of how many the task knows the values without asking the store.
    """

    def __init__(self, connect: Callable[[], PlainStore], owner: StoreOwner, kind: str, cached_entries: int) -> None:
        self._store = connect()
        self._beside = connect()
        self._owner = owner
        self._kind = kind
        self._recent = RecentValues(cached_entries)
        """What the store has, below the log."""
        self._is_begun = False
        self._names: dict[bytes, str] = {}
        self._numbers: dict[str, bytes] = {}
        self._version = 1
        self._applied = 0
        self._log: dict[int, dict[bytes, bytes | None]] = {}
        """By version, oldest first: what was written with it."""

    # Whose it is.

    def name_table(self, prefix: bytes, name: str) -> None:
        """Entries whose keys start with `prefix` are of the table of that name."""
        self._names[prefix] = name

    def begin_with(self, versions: Sequence[StoreVersion]) -> None:
        """Begin with what these hold of the own key groups: with what their logs have, too."""
        self._store.begin(versions)
        self._is_begun = True
        owned = self._owner.after - self._owner.first
        for version in versions:
            groups = range(max(version.first, self._owner.first), min(version.after, self._owner.after))
            self._store.apply(groups, version.version, [entry for entry in version.log if entry.group in groups])
            owned -= len(groups)
            for name, number in version.numbers.items():
                self._numbers[name] = max(self._numbers.get(name, b""), number.to_bytes(8, "big"))
        self._version = max((version.version for version in versions), default=0) + 1
        self._applied = 0 if owned else min(version.version for version in versions)
        self._log = {}
        self._recent.clear()

    def _own(self) -> PlainStore:
        if not self._is_begun:
            self.begin_with(())
        return self._store

    # Entries.

    def get(self, key: bytes) -> bytes | None:
        """The newest value of a key; None if there is none."""
        if key.startswith(NUMBERS_GROUP, _PREFIX_BYTES):
            self._own()
            return self._numbers.get(self._names[key[:_PREFIX_BYTES]])
        store = self._own()
        value = _logged(list(self._log.values()), key)
        if value is ABSENT:
            value = self._recent.get(key)
        if value is ABSENT:
            value = self._stored(store, key)
            self._recent.put(key, value)
        return value  # type: ignore[no-any-return]

    def get_at(self, store: PlainStore, log: list[dict[bytes, bytes | None]], key: bytes) -> bytes | None:
        """The value of a key with this log above the store. In the thread of snapshots."""
        value = _logged(log, key)
        return self._stored(store, key) if value is ABSENT else value

    def _stored(self, store: PlainStore, key: bytes) -> bytes | None:
        return store.get(self._names[key[:_PREFIX_BYTES]], _group_of(key), key[_GROUP_BYTES:])

    def some(self, prefix: bytes) -> Iterator[Entry]:
        """Some entries of a table, below the log: right after a restore that is empty."""
        groups = range(self._owner.first, self._owner.after)
        table = prefix[:_PREFIX_BYTES]
        for group, key, value in self._own().some(self._names[table], groups):
            yield table + group.to_bytes(2, "big") + key, value

    def items(self, prefix: bytes, start: bytes = b"") -> Iterator[Entry]:
        """All entries whose keys begin with `prefix`, as they are at the call, sorted by key; from `start` on."""
        entries = self.items_at(self._own(), list(self._log.values()), prefix)
        return (entry for entry in entries if entry[0] >= start)

    def items_at(self, store: PlainStore, log: list[dict[bytes, bytes | None]], prefix: bytes) -> Iterator[Entry]:
        """All entries with this log above the store. They are read at once: the store itself may change meanwhile."""
        table = prefix[:_PREFIX_BYTES]
        first, after = self._owner.first, self._owner.after
        if len(prefix) >= _GROUP_BYTES:
            first, after = _group_of(prefix), _group_of(prefix) + 1
        found: dict[bytes, bytes | None] = {}
        for group in range(first, after):
            head = table + group.to_bytes(2, "big")
            for rest, value in store.items(self._names[table], group, prefix[_GROUP_BYTES:]):
                found[head + rest] = value
        for changes in log:
            # Copied at once: the thread of a snapshot may be writing to it.
            found.update((key, value) for key, value in list(changes.items()) if key.startswith(prefix))
        return iter(sorted((key, value) for key, value in found.items() if value is not None))

    def write(self, entries: Iterable[Change]) -> None:
        """Store values; None removes a key."""
        self._write(self._version, entries)

    def write_at(self, version: StoreVersion, entries: Iterable[Change]) -> None:
        """The same with a version that was sealed, in another thread."""
        self._write(version.version, entries)

    def _write(self, version: int, entries: Iterable[Change]) -> None:
        changes: dict[bytes, bytes | None] | None = None
        for key, value in entries:
            if changes is None:
                # Not before there is one: a table may be filled with nothing before it is known what it begins with.
                self._own()
                changes = self._log.setdefault(version, {})
            if key.startswith(NUMBERS_GROUP, _PREFIX_BYTES):
                assert value is not None
                self._numbers[self._names[key[:_PREFIX_BYTES]]] = value
            else:
                changes[key] = value

    def ingest(self, entries: Iterable[Entry]) -> None:
        """Store values of new keys."""
        self.write(entries)

    def remove_range(self, first: bytes, after: bytes) -> None:
        """Remove all entries whose keys are not before `first`, and before `after`."""
        self.write((key, None) for key, _ in self.items(first[:_PREFIX_BYTES], first) if key < after)

    # Versions.

    def view(self) -> LoggedView:
        """The store as it is now."""
        self._own()
        self._seal()
        return LoggedView(self, self._beside, list(self._log.values()))

    def seal(self) -> StoreVersion:
        """What is written from now on is newer than this version."""
        self._own()
        owner = self._owner
        return StoreVersion(owner.job, owner.operator, owner.first, owner.after, self._seal(), kind=self._kind)

    def _seal(self) -> int:
        # There at once: versions are in the order of their numbers.
        self._log.setdefault(self._version, {})
        self._version += 1
        return self._version - 1

    def all_written(self, version: StoreVersion) -> StoreVersion:
        """The version with its log, in the thread of snapshots."""
        newest: dict[bytes, bytes | None] = {}
        # Before the log: what is applied meanwhile may still be in it.
        applied = self._applied
        for number, changes in list(self._log.items()):
            if number <= version.version:
                newest.update(changes)
        numbers = {name: int.from_bytes(number, "big") for name, number in self._numbers.items()}
        return msgspec.structs.replace(version, numbers=numbers, applied=applied, log=self._entries(newest))

    def completed(self, version: int) -> None:
        """A checkpoint with this version is complete: its log is applied, and forgotten."""
        newest: dict[bytes, bytes | None] = {}
        done = [number for number in self._log if number <= version]
        for number in done:
            newest.update(self._log[number])
        groups = range(self._owner.first, self._owner.after)
        self._store.apply(groups, version, self._entries(newest))
        self._applied = version
        for key, value in newest.items():
            self._recent.put(key, value)
        for number in done:
            del self._log[number]

    def _entries(self, changes: dict[bytes, bytes | None]) -> list[LoggedEntry]:
        return [
            LoggedEntry(self._names[key[:_PREFIX_BYTES]], _group_of(key), key[_GROUP_BYTES:], value)
            for key, value in changes.items()
        ]

    def link(self) -> Any:
        """It has no files."""
        raise NotImplementedError("an external store is frozen by its version")

    def close(self) -> None:
        """Leave the store. The entries stay, as the checkpoints do that need them."""
        self._store.close()
        self._beside.close()


class LoggedView:
    """A store as of a moment. It is read in the thread of snapshots, before a later checkpoint can be complete."""

    def __init__(self, store: LoggedStore, plain: PlainStore, log: list[dict[bytes, bytes | None]]) -> None:
        self._store = store
        self._plain = plain
        self._log = log

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        return self._store.get_at(self._plain, self._log, key)

    def items(self, prefix: bytes) -> Iterator[Entry]:
        """All entries whose keys begin with `prefix`, sorted by key."""
        return self._store.items_at(self._plain, self._log, prefix)


def _logged(log: list[dict[bytes, bytes | None]], key: bytes) -> Any:
    """The newest value in the log, None if it was removed, ABSENT if the log does not have it."""
    for changes in reversed(log):
        if key in changes:
            return changes[key]
    return ABSENT


def _group_of(key: bytes) -> int:
    return int.from_bytes(key[_PREFIX_BYTES:_GROUP_BYTES], "big")
