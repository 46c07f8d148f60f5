"""PostgreSQL as a store of tasks with older versions.

All jobs share four tables, which are created once:

    penstock_operators   id, job, operator, run                     the owner of the state: a fence
    penstock_states      id, operator, name                         the states of an operator
    penstock_entries     state, key_group, key, version, value      the entries; NULL is a tombstone
    penstock_floors      operator, key_group, version               older versions may lack entries

Each write is one statement that locks the operator's row and compares its run: a later owner changes the run, and
writes of the earlier one fail from then on. A worker reads through a connection of its task. The snapshot's thread has
another connection for its reads and writes. Recently read or written values are cached: only the owner writes to its
key groups.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from penstock.common.errors import CheckpointError
from penstock.connectors.postgres.connection import Database, psycopg, translated
from penstock.engine.runtime.task.vertex import PostgresSettings
from penstock.engine.state.backends.rocksdb.store_files import NUMBERS_GROUP
from penstock.engine.state.backends.versioned.backend import VersionedStores
from penstock.engine.state.backends.versioned.logged import ABSENT, RecentValues
from penstock.engine.state.backends.versioned.store import StoreOwner, StoreVersion
from penstock.engine.stores import postgres_statements as sql

_BATCH_ENTRIES = 2_000
_PAGE_ENTRIES = 2_000
_SAMPLE_ENTRIES = 32
_PREFIX_BYTES = 4
_GROUP_BYTES = 6
_NEWEST = (1 << 63) - 1
Entry = tuple[bytes, bytes]


class Connection:
    """A connection to the database, opened at its first use. Errors are PostgresError."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._connection: Any = None

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Execute a query and return its rows."""
        rows: list[Any] = self._run(statement, parameters, lambda cursor: cursor.fetchall())
        return rows

    def count(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Execute a statement and return how many rows it wrote."""
        count: int = self._run(statement, parameters, lambda cursor: cursor.rowcount)
        return count

    def in_transaction(self, work: Callable[[], None]) -> None:
        """Do some work in one transaction."""
        package = psycopg()
        try:
            with self._open().transaction():
                work()
        except package.Error as error:
            raise self._error(error) from None

    def _run(self, statement: str, parameters: Sequence[Any], answer: Callable[[Any], Any]) -> Any:
        package = psycopg()
        try:
            with self._open().cursor(binary=True) as cursor:
                cursor.execute(statement, parameters, prepare=True)
                return answer(cursor)
        except package.Error as error:
            raise self._error(error) from None

    def _open(self) -> Any:
        # A lost connection fails its current use, for example a snapshot. The next use opens a new one.
        if self._connection is None or self._connection.closed:
            self._connection = self._database.connect(self._name)
        return self._connection

    def _error(self, error: Any) -> Exception:
        text = self._database.hide(str(error).strip())
        return translated(error, f"state in PostgreSQL at {self._database}: {text}")

    def close(self) -> None:
        """Close the connection, if it is open."""
        if self._connection is not None:
            self._connection.close()


class PostgresStore:
    """The state of one subtask of an operator. It connects at its first use."""

    def __init__(self, settings: PostgresSettings, database: Database, owner: StoreOwner) -> None:
        self._owner = owner
        self._retained_max = settings.retained_max
        self._connection = Connection(database, f"penstock state {owner.job}")
        self._snapshot_connection = Connection(database, f"penstock snapshots {owner.job}")
        self._recent = RecentValues(settings.cached_entries)
        self._operator: int | None = None
        """The id of the operator's row. None: the store has not begun."""
        self._names: dict[bytes, str] = {}
        self._states: dict[bytes, int] = {}
        self._numbers: dict[str, bytes] = {}
        """Table -> the number of the next segment. Each subtask has its own, so it is a part of the version."""
        self._version = 1
        self._sealing = threading.Lock()
        self._completed: list[int] = []
        """Versions of the retained checkpoints."""
        self._floor: int | None = None
        """The recorded oldest version with all entries: entries that only older versions need may be removed."""

    # Ownership.

    def name_table(self, prefix: bytes, name: str) -> None:
        """Assign entries whose keys start with `prefix` to the table `name`."""
        self._names[prefix] = name
        self._states.pop(prefix, None)

    def begin_with(self, versions: Sequence[StoreVersion]) -> None:
        """Begin with the content of these versions in the owner's key groups."""
        self._connection.in_transaction(lambda: self._begin(versions))
        self._recent.clear()
        self._floor = None
        if versions:
            numbers = [version.version for version in versions]
            self._version = max(self._version, max(numbers) + 1)
            operators = {(version.job, version.operator) for version in versions}
            is_same_operator = operators == {(self._owner.job, self._owner.operator)}
            # Of several former subtasks, the lowest version is needed until the next checkpoint completes. State of
            # another job can be copied again.
            self._completed = [min(numbers) if is_same_operator else self._version - 1]
        for version in versions:
            for name, number in version.numbers.items():
                self._numbers[name] = max(self._numbers.get(name, b""), number.to_bytes(8, "big"))

    def _begin(self, versions: Sequence[StoreVersion]) -> None:
        owner, connection = self._owner, self._connection
        if not connection.rows(sql.TABLES_EXIST)[0][0]:
            # With a lock: if two connections create a table at the same time, one fails.
            connection.rows(sql.LOCK)
            for statement in sql.TABLES:
                connection.count(statement)
        is_known = connection.rows(sql.OPERATOR, (owner.job, owner.operator))
        if not is_known and any((version.job, version.operator) == (owner.job, owner.operator) for version in versions):
            raise _missing_error(owner.job, owner.operator)
        owned = connection.rows(sql.FENCE, (owner.job, owner.operator, owner.run))
        if not owned:
            raise self._fenced_error()
        operator: int = owned[0][0]
        left = owner.first
        for version in sorted(versions, key=lambda one: one.first):
            first, after = max(version.first, owner.first), min(version.after, owner.after)
            if first >= after:
                continue
            self._remove(operator, left, first)
            left = after
            if (version.job, version.operator) == (owner.job, owner.operator):
                connection.count(sql.REMOVE_NEWER, (operator, first, after, version.version))
                self._check_floor(version, operator, first, after)
            else:
                self._copy(version, operator, first, after)
        self._remove(operator, left, owner.after)
        self._operator = operator

    def _copy(self, version: StoreVersion, operator: int, first: int, after: int) -> None:
        """Copy the state of another job, which may continue to change its own state, or end."""
        others = self._connection.rows(sql.OPERATOR, (version.job, version.operator))
        if not others:
            raise _missing_error(version.job, version.operator)
        self._remove(operator, first, after)
        self._connection.count(sql.COPY_STATES, (operator, others[0][0]))
        self._connection.count(sql.COPY, (operator, others[0][0], first, after, version.version))
        # Checked last: that job may be running, and may have removed entries before they were copied.
        self._check_floor(version, others[0][0], first, after)

    def _remove(self, operator: int, first: int, after: int) -> None:
        """Remove entries of other runs. Versions continue after theirs, so that a version never gets another meaning.

        Checkpoints that name a removed version are refused from now on.
        """
        if first >= after:
            return
        ((removed,),) = self._connection.rows(sql.REMOVE_ALL, (operator, first, after))
        ((floor,),) = self._connection.rows(sql.FLOOR, (operator, first, after))
        if newest := max(removed, floor):
            self._version = max(self._version, newest + 1)
            self._connection.count(sql.RAISE_FLOORS, (operator, self._owner.run, newest + 1, first, after - 1))

    def _check_floor(self, version: StoreVersion, operator: int, first: int, after: int) -> None:
        ((floor,),) = self._connection.rows(sql.FLOOR, (operator, first, after))
        if floor > version.version:
            raise CheckpointError(
                f"PostgreSQL no longer has all state of the operator '{version.operator}' of job {version.job} for "
                "this checkpoint, which is older than the oldest retained one: start from a retained checkpoint, or "
                "from a savepoint"
            )

    def _fenced_error(self) -> CheckpointError:
        return CheckpointError(
            f"the state of the operator '{self._owner.operator}' in PostgreSQL belongs to a later run of job "
            f"{self._owner.job}: this run was considered dead, and ends"
        )

    def _begun_operator(self) -> int:
        if self._operator is None:
            self.begin_with(())
        assert self._operator is not None
        return self._operator

    def _state(self, prefix: bytes) -> int:
        number = self._states.get(prefix)
        if number is None:
            operator, name = self._begun_operator(), self._names[prefix]
            self._connection.count(sql.ADD_STATE, (operator, name))
            number = self._states[prefix] = self._connection.rows(sql.STATE, (operator, name))[0][0]
        return number

    # Entries.

    def get(self, key: bytes) -> bytes | None:
        """Return the newest value of a key, or None."""
        value = self._recent.get(key)
        if value is ABSENT:
            if key.startswith(NUMBERS_GROUP, _PREFIX_BYTES):
                self._begun_operator()
                return self._numbers.get(self._names[key[:_PREFIX_BYTES]])
            value = self.get_at(self._connection, key, _NEWEST)
            self._recent.put(key, value)
        return value  # type: ignore[no-any-return]

    def get_at(self, connection: Connection, key: bytes, version: int) -> bytes | None:
        """Return the value of a key as of a version, or None."""
        state, group, rest = self._state(key[:_PREFIX_BYTES]), _group_of(key), key[_GROUP_BYTES:]
        found = connection.rows(sql.GET, (state, group, rest, version))
        value: bytes | None = found[0][0] if found else None
        return value

    def items(self, prefix: bytes, start: bytes = b"") -> Iterator[Entry]:
        """Return the current entries whose keys start with `prefix`, sorted by key, from `start` on."""
        return self.items_at(self._connection, prefix, start, None)

    def sample(self, prefix: bytes) -> Iterator[Entry]:
        """Return some entries whose keys start with `prefix`."""
        entries = self.items_at(self._connection, prefix, start=b"", version=None, page_entries=_SAMPLE_ENTRIES)
        return itertools.islice(entries, _SAMPLE_ENTRIES)

    def items_at(
        self,
        connection: Connection,
        prefix: bytes,
        start: bytes,
        version: int | None,
        page_entries: int = _PAGE_ENTRIES,
    ) -> Iterator[Entry]:
        """Return the entries whose keys start with `prefix` as of a version. None: the current entries."""
        table = prefix[:_PREFIX_BYTES]
        state = self._state(table)
        first, after = self._owner.first, self._owner.after
        if len(prefix) >= _GROUP_BYTES:
            first = max(first, _group_of(prefix))
            after = min(after, _group_of(prefix) + 1)
        begin = max(prefix, start, table + first.to_bytes(2, "big"))

        def page(at: bytes, version: int) -> list[Any]:
            of_group = _group_of(at)
            parameters = (state, of_group, at[_GROUP_BYTES:], after, version, page_entries)
            return connection.rows(sql.PAGE, parameters)

        entries = page(begin, _NEWEST if version is None else version)
        if version is None and len(entries) == page_entries:
            # Entries that are written before the next page is read must not be on it.
            version = self._sealed()
        return self._pages(
            table, prefix, entries, page=lambda at: page(at, version or _NEWEST), page_entries=page_entries
        )

    def _pages(
        self, table: bytes, prefix: bytes, entries: list[Any], page: Callable[[bytes], list[Any]], page_entries: int
    ) -> Iterator[Entry]:
        while True:
            key = table
            for group, rest, value in entries:
                key = table + group.to_bytes(2, "big") + rest
                if not key.startswith(prefix):
                    return
                if value is not None:
                    yield key, value
            if len(entries) < page_entries:
                return
            # The next possible key.
            entries = page(key + b"\x00")

    def write(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Store values; None removes a key."""
        self._write(self._connection, self._version, entries)

    def write_at(self, version: StoreVersion, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Store values with a sealed version, in another thread."""
        self._raise_floor()
        self._write(self._snapshot_connection, version.version, entries)

    def _write(self, connection: Connection, version: int, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        rest = iter(entries)
        # Without entries the store does not begin: an empty write may come before `begin_with`.
        while batch := dict(itertools.islice(rest, _BATCH_ENTRIES)):
            operator = self._begun_operator()
            for key in [key for key in batch if key.startswith(NUMBERS_GROUP, _PREFIX_BYTES)]:
                number = batch.pop(key)
                assert number is not None
                self._numbers[self._names[key[:_PREFIX_BYTES]]] = number
            keys = (
                [self._state(key[:_PREFIX_BYTES]) for key in batch],
                [_group_of(key) for key in batch],
                [key[_GROUP_BYTES:] for key in batch],
            )
            parameters = (operator, self._owner.run, version, *keys, list(batch.values()))
            if connection.count(sql.PUT, parameters) < len(batch):
                raise self._fenced_error()
            for key, value in batch.items():
                self._recent.put(key, value)
            if self._floor is not None:
                connection.count(sql.PRUNE, (*keys, self._floor))

    def all_written(self, version: StoreVersion) -> StoreVersion:
        """Return the completed version. Prunes removed keys that no retained checkpoint needs, in that other thread."""
        self._raise_floor()
        if self._floor is not None:
            states, owner = list(self._states.values()), self._owner
            parameters = (states, owner.first, owner.after, self._floor)
            self._snapshot_connection.count(sql.PRUNE_REMOVED, parameters)
        # These may be larger than at the time of the version, which does no harm.
        numbers = {name: int.from_bytes(number, "big") for name, number in self._numbers.items()}
        return msgspec.structs.replace(version, numbers=numbers)

    def _raise_floor(self) -> None:
        """Record the oldest retained version in the database. Then entries that only older versions need may go."""
        oldest, owner = self._oldest_retained(), self._owner
        if oldest is not None and oldest != self._floor:
            parameters = (self._begun_operator(), owner.run, oldest, owner.first, owner.after - 1)
            if not self._snapshot_connection.count(sql.RAISE_FLOORS, parameters):
                raise self._fenced_error()
            self._floor = oldest

    def ingest(self, entries: Iterable[Entry]) -> None:
        """Store values of new keys."""
        self.write(entries)

    def remove_range(self, first: bytes, after: bytes) -> None:
        """Remove all entries with keys from `first` to before `after`."""
        found = itertools.takewhile(lambda entry: entry[0] < after, self.items(first[:_PREFIX_BYTES], first))
        self.write((key, None) for key, _ in found)

    # Versions.

    def view(self) -> PostgresView:
        """Return a view of the current content."""
        self._begun_operator()
        return PostgresView(self, self._snapshot_connection, self._sealed())

    def _sealed(self) -> int:
        # With a lock: the snapshot's thread seals as well if it reads many entries for its writes.
        with self._sealing:
            self._version += 1
            return self._version - 1

    def seal(self) -> StoreVersion:
        """Return the current version and begin a new one: later writes are newer than it."""
        self._begun_operator()
        owner = self._owner
        for prefix in self._names:
            # In the task's thread, since another thread writes for the snapshot.
            self._state(prefix)
        return StoreVersion(
            job=owner.job, operator=owner.operator, first=owner.first, after=owner.after, version=self._sealed()
        )

    def completed(self, version: int) -> None:
        """Note the version of a completed checkpoint."""
        self._completed = [*self._completed, version][-self._retained_max :]

    def _oldest_retained(self) -> int | None:
        """Return the version of the oldest retained checkpoint. None: unknown, since there are earlier checkpoints."""
        return self._completed[0] if len(self._completed) == self._retained_max else None

    def link(self) -> Any:
        """Raise NotImplementedError: the store has no files."""
        raise NotImplementedError("an external store is frozen by its version")

    def close(self) -> None:
        """Close the connections. The entries stay, like the checkpoints that need them."""
        self._connection.close()
        self._snapshot_connection.close()


class PostgresView:
    """The content of a store as of a version. The thread that writes snapshots may read it."""

    def __init__(self, store: PostgresStore, connection: Connection, version: int) -> None:
        self._store = store
        self._connection = connection
        self._version = version

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        return self._store.get_at(self._connection, key, self._version)

    def items(self, prefix: bytes) -> Iterator[Entry]:
        """Return all entries whose keys start with `prefix`, sorted by key."""
        return self._store.items_at(self._connection, prefix, b"", self._version)


def _missing_error(job: str, operator: str) -> CheckpointError:
    return CheckpointError(
        f"the state of the operator '{operator}' of job {job} is no longer in PostgreSQL: start from a savepoint, or "
        "from a retained checkpoint"
    )


def _group_of(key: bytes) -> int:
    return int.from_bytes(key[_PREFIX_BYTES:_GROUP_BYTES], "big")


def postgres_stores(settings: PostgresSettings) -> VersionedStores:
    """Return stores for the tasks of a slot."""
    database = Database(settings.url, settings.user, settings.password)
    return VersionedStores(lambda owner: PostgresStore(settings, database, owner), settings.cached_entries)


def forget_job(settings: PostgresSettings, job: str) -> None:
    """Remove the state of a job that has ended without a retained checkpoint."""
    connection = Connection(Database(settings.url, settings.user, settings.password), f"penstock {job}")
    try:
        if connection.rows(sql.TABLES_EXIST)[0][0]:
            connection.count(sql.FORGET, (job,))
    finally:
        connection.close()
