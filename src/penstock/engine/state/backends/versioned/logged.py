"""A store without older versions, behind a write-ahead log: `state.backend.type: redis`.

Writes wait in a log, by version, and are read from there. A snapshot contains the log of all versions that are not
known to be in a completed checkpoint; when a checkpoint completes, its log is applied to the store. So the store never
holds changes that a restart would revert, and applying values is idempotent. A restore first applies the logs of its
checkpoint. Source: Carbone et al., "State Management in Apache Flink" (VLDB 2017), section 4.1, external state backends
without multi-version concurrency control.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from penstock.engine.state.backends.rocksdb.store_files import NUMBERS_GROUP
from penstock.engine.state.backends.versioned.store import LoggedEntry, StoreOwner, StoreVersion

ABSENT: Any = object()
"""The result of a lookup of an unknown value."""


class RecentValues:
    """A cache of values of an external store, to whose key groups only their owner writes.

    Holds at least the `entries` that were used last, at most twice as many. A value of None: the store has no value.
    Two generations cost less than an order of all entries, which would change with each use.

    One thread reads and writes. Another thread may only write keys that the first one does not read before.
    """

    def __init__(self, entries: int) -> None:
        self._entries = max(entries, 1)
        self._young: dict[bytes, bytes | None] = {}
        self._old: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> Any:
        """Return the value, None, or ABSENT if it is unknown."""
        value = self._young.get(key, ABSENT)
        if value is ABSENT:
            value = self._old.get(key, ABSENT)
            if value is not ABSENT:
                self.put(key, value)
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of a key."""
        if len(self._young) >= self._entries:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def clear(self) -> None:
        """Forget all values."""
        self._young, self._old = {}, {}


_PREFIX_BYTES = 4
_GROUP_BYTES = 6
Entry = tuple[bytes, bytes]
Change = tuple[bytes, bytes | None]


class PlainStore(Protocol):
    """A store without versions: the state of one subtask by table and key group, for use by one thread."""

    def get(self, table: str, group: int, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""

    def items(self, table: str, group: int, prefix: bytes) -> Iterator[Entry]:
        """Return all entries of a key group whose keys start with `prefix`, in any order."""

    def begin(self, versions: Sequence[StoreVersion]) -> None:
        """Begin with the content of these versions in the owner's key groups; other groups are empty.

        Changes that earlier owners apply fail from now on. Raises CheckpointError if the store has newer values.
        """

    def sample(self, table: str, groups: range) -> Iterator[tuple[int, bytes, bytes]]:
        """Return one entry of each key group: group, key and value."""

    def apply(self, groups: range, version: int, entries: Sequence[LoggedEntry]) -> None:
        """Store values, after which these key groups have this version. None removes a key.

        Raises CheckpointError if they have another owner.
        """

    def close(self) -> None:
        """Disconnect from the store. Its content stays."""


class LoggedStore:
    """The state of one subtask of an operator: a store and the log above it.

    `connect` opens the store; the thread of the task and the thread that writes snapshots each have a connection.
    `cached_entries`: how many values of the store the task caches.
    """

    def __init__(self, connect: Callable[[], PlainStore], owner: StoreOwner, kind: str, cached_entries: int) -> None:
        self._store = connect()
        self._snapshot_store = connect()
        self._owner = owner
        self._kind = kind
        self._recent = RecentValues(cached_entries)
        """Values of the store below the log."""
        self._is_begun = False
        self._names: dict[bytes, str] = {}
        self._numbers: dict[str, bytes] = {}
        self._version = 1
        self._applied = 0
        self._log: dict[int, dict[bytes, bytes | None]] = {}
        """Version -> the changes that were written with it, oldest version first."""

    # Ownership.

    def name_table(self, prefix: bytes, name: str) -> None:
        """Assign entries whose keys start with `prefix` to the table `name`."""
        self._names[prefix] = name

    def begin_with(self, versions: Sequence[StoreVersion]) -> None:
        """Begin with the content of these versions, logs included, in the owner's key groups."""
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

    def _begun_store(self) -> PlainStore:
        if not self._is_begun:
            self.begin_with(())
        return self._store

    # Entries.

    def get(self, key: bytes) -> bytes | None:
        """Return the newest value of a key, or None."""
        if key.startswith(NUMBERS_GROUP, _PREFIX_BYTES):
            self._begun_store()
            return self._numbers.get(self._names[key[:_PREFIX_BYTES]])
        store = self._begun_store()
        value = _logged(list(self._log.values()), key)
        if value is ABSENT:
            value = self._recent.get(key)
        if value is ABSENT:
            value = self._stored(store, key)
            self._recent.put(key, value)
        return value  # type: ignore[no-any-return]

    def get_at(self, store: PlainStore, log: list[dict[bytes, bytes | None]], key: bytes) -> bytes | None:
        """Return the value of a key with this log above the store. Called in the thread of snapshots."""
        value = _logged(log, key)
        return self._stored(store, key) if value is ABSENT else value

    def _stored(self, store: PlainStore, key: bytes) -> bytes | None:
        return store.get(self._names[key[:_PREFIX_BYTES]], _group_of(key), key[_GROUP_BYTES:])

    def sample(self, prefix: bytes) -> Iterator[Entry]:
        """Return some entries of a table below the log, which is empty directly after a restore."""
        groups = range(self._owner.first, self._owner.after)
        table = prefix[:_PREFIX_BYTES]
        for group, key, value in self._begun_store().sample(self._names[table], groups):
            yield table + group.to_bytes(2, "big") + key, value

    def items(self, prefix: bytes, start: bytes = b"") -> Iterator[Entry]:
        """Return the current entries whose keys start with `prefix`, sorted by key, from `start` on."""
        entries = self.items_at(self._begun_store(), list(self._log.values()), prefix)
        return (entry for entry in entries if entry[0] >= start)

    def items_at(self, store: PlainStore, log: list[dict[bytes, bytes | None]], prefix: bytes) -> Iterator[Entry]:
        """Return all entries with this log above the store. Reads all immediately, since the store may change later."""
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
            # Copied in one step: the thread of a snapshot may be writing to it.
            found.update((key, value) for key, value in list(changes.items()) if key.startswith(prefix))
        return iter(sorted((key, value) for key, value in found.items() if value is not None))

    def write(self, entries: Iterable[Change]) -> None:
        """Store values; None removes a key."""
        self._write(self._version, entries)

    def write_at(self, version: StoreVersion, entries: Iterable[Change]) -> None:
        """Store values with a sealed version, in another thread."""
        self._write(version.version, entries)

    def _write(self, version: int, entries: Iterable[Change]) -> None:
        changes: dict[bytes, bytes | None] | None = None
        for key, value in entries:
            if changes is None:
                # Only with the first entry: an empty write may come before `begin_with`.
                self._begun_store()
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
        """Remove all entries with keys from `first` to before `after`."""
        self.write((key, None) for key, _ in self.items(first[:_PREFIX_BYTES], first) if key < after)

    # Versions.

    def view(self) -> LoggedView:
        """Return a view of the current content."""
        self._begun_store()
        self._seal()
        return LoggedView(self, self._snapshot_store, list(self._log.values()))

    def seal(self) -> StoreVersion:
        """Return the current version and begin a new one: later writes are newer than it."""
        self._begun_store()
        owner = self._owner
        return StoreVersion(
            job=owner.job,
            operator=owner.operator,
            first=owner.first,
            after=owner.after,
            version=self._seal(),
            kind=self._kind,
        )

    def _seal(self) -> int:
        # Created now, even without changes: versions are in the order of their numbers.
        self._log.setdefault(self._version, {})
        self._version += 1
        return self._version - 1

    def all_written(self, version: StoreVersion) -> StoreVersion:
        """Return the version with its log. Called in the thread of snapshots."""
        newest: dict[bytes, bytes | None] = {}
        # Read before the log: changes that are applied meanwhile may still be in the log.
        applied = self._applied
        for number, changes in list(self._log.items()):
            if number <= version.version:
                newest.update(changes)
        numbers = {name: int.from_bytes(number, "big") for name, number in self._numbers.items()}
        return msgspec.structs.replace(version, numbers=numbers, applied=applied, log=self._entries(newest))

    def completed(self, version: int) -> None:
        """Apply and drop the log of a completed checkpoint with this version."""
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
        """Raise NotImplementedError: the store has no files."""
        raise NotImplementedError("an external store is frozen by its version")

    def close(self) -> None:
        """Disconnect from the store. The entries stay, like the checkpoints that need them."""
        self._store.close()
        self._snapshot_store.close()


class LoggedView:
    """The content of a store at one moment. The thread of snapshots reads it before a later checkpoint can complete."""

    def __init__(self, store: LoggedStore, plain: PlainStore, log: list[dict[bytes, bytes | None]]) -> None:
        self._store = store
        self._plain = plain
        self._log = log

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        return self._store.get_at(self._plain, self._log, key)

    def items(self, prefix: bytes) -> Iterator[Entry]:
        """Return all entries whose keys start with `prefix`, sorted by key."""
        return self._store.items_at(self._plain, self._log, prefix)


def _logged(log: list[dict[bytes, bytes | None]], key: bytes) -> Any:
    """Return the newest value in the log, None if it was removed, ABSENT if the log does not contain the key."""
    for changes in reversed(log):
        if key in changes:
            return changes[key]
    return ABSENT


def _group_of(key: bytes) -> int:
    return int.from_bytes(key[_PREFIX_BYTES:_GROUP_BYTES], "big")
