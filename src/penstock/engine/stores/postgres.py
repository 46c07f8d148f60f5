"""PostgreSQL as the store of tasks that knows its older versions.

All jobs share four tables, which are made once:

    penstock_operators   id, job, operator, run                     who owns the state: a fence
    penstock_states      id, operator, name                         its states
    penstock_entries     state, key_group, key, version, value      NULL is a tombstone
    penstock_floors      operator, key_group, version               what is older may lack entries

Each write is one statement that holds the operator's row and finds its own run there: a successor changes the run, and
what was not written by then never is. A worker reads through a connection of its task, and writes and reads for
snapshots through another one, in the snapshot's thread. Values that were read or written lately are cached: nobody else
writes to these key groups.
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
from penstock.engine.state.backends.versioned.logged import ABSENT, RecentValues
from penstock.engine.state.backends.versioned.store import StoreOwner, StoreVersion, VersionedStores
from penstock.engine.stores import postgres_statements as sql

_BATCH_ENTRIES = 2_000
_PAGE_ENTRIES = 2_000
_SOME_ENTRIES = 32
_PREFIX_BYTES = 4
_GROUP_BYTES = 6
_NEWEST = (1 << 63) - 1
Entry = tuple[bytes, bytes]


class Connection:
    """A connection to the database, opened when it is first used. Errors are PostgresError."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._connection: Any = None

    def rows(self, statement: str, *parameters: Any) -> list[Any]:
        """What a query gives."""
        rows: list[Any] = self._run(statement, parameters, lambda cursor: cursor.fetchall())
        return rows

    def count(self, statement: str, *parameters: Any) -> int:
        """How many rows a statement has written."""
        count: int = self._run(statement, parameters, lambda cursor: cursor.rowcount)
        return count

    def in_one(self, work: Callable[[], None]) -> None:
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
        # A lost one fails what it was used for, a snapshot for example. The next one has another connection.
        if self._connection is None or self._connection.closed:
            self._connection = self._database.connect(self._name)
        return self._connection

    def _error(self, error: Any) -> Exception:
        text = self._database.hide(str(error).strip())
        return translated(error, f"state in PostgreSQL at {self._database}: {text}")

    def close(self) -> None:
        """Close it, if it is open."""
        if self._connection is not None:
            self._connection.close()


class PostgresStore:
    """The state of one subtask of an operator. Nothing is asked of the server before the first use."""

    def __init__(self, settings: PostgresSettings, database: Database, owner: StoreOwner) -> None:
        self._owner = owner
        self._retained_max = settings.retained_max
        self._connection = Connection(database, f"penstock state {owner.job}")
        self._beside = Connection(database, f"penstock snapshots {owner.job}")
        self._recent = RecentValues(settings.cached_entries)
        self._operator: int | None = None
        """The id of its row; None: nothing was asked yet."""
        self._names: dict[bytes, str] = {}
        self._states: dict[bytes, int] = {}
        self._numbers: dict[str, bytes] = {}
        """By table, the number of the next segment: of a subtask, and so part of its version."""
        self._version = 1
        self._sealing = threading.Lock()
        self._completed: list[int] = []
        """Versions of complete checkpoints, as many as are retained."""
        self._floor: int | None = None
        """The oldest version of which the database has all entries, and says so: what only older ones have may go."""

    # Whose it is.

    def name_table(self, prefix: bytes, name: str) -> None:
        """Entries whose keys start with `prefix` are of the table of that name."""
        self._names[prefix] = name
        self._states.pop(prefix, None)

    def begin_with(self, versions: Sequence[StoreVersion]) -> None:
        """Begin with what these hold of its key groups."""
        self._connection.in_one(lambda: self._begin(versions))
        self._recent.clear()
        self._floor = None
        if versions:
            numbers = [version.version for version in versions]
            self._version = max(self._version, max(numbers) + 1)
            own = {(version.job, version.operator) for version in versions} == {(self._owner.job, self._owner.operator)}
            # Of several subtasks: what the one that was behind has is needed, until the next checkpoint is complete.
            # Another job's is copied again, if it is needed.
            self._completed = [min(numbers) if own else self._version - 1]
        for version in versions:
            for name, number in version.numbers.items():
                self._numbers[name] = max(self._numbers.get(name, b""), number.to_bytes(8, "big"))

    def _begin(self, versions: Sequence[StoreVersion]) -> None:
        owner, connection = self._owner, self._connection
        if not connection.rows(sql.ARE_THERE)[0][0]:
            # One at a time: two that create a table at once fail.
            connection.rows(sql.LOCK)
            for statement in sql.TABLES:
                connection.count(statement)
        is_known = connection.rows(sql.OPERATOR, owner.job, owner.operator)
        if not is_known and any((version.job, version.operator) == (owner.job, owner.operator) for version in versions):
            raise self._is_gone(owner.job, owner.operator)
        fenced = connection.rows(sql.FENCE, owner.job, owner.operator, owner.run)
        if not fenced:
            raise self._is_fenced()
        operator: int = fenced[0][0]
        left = owner.first
        for version in sorted(versions, key=lambda one: one.first):
            first, after = max(version.first, owner.first), min(version.after, owner.after)
            if first >= after:
                continue
            self._remove(operator, left, first)
            left = after
            if (version.job, version.operator) == (owner.job, owner.operator):
                connection.count(sql.REMOVE_NEWER, operator, first, after, version.version)
                self._check_floor(version, operator, first, after)
            else:
                self._copy(version, operator, first, after)
        self._remove(operator, left, owner.after)
        self._operator = operator

    def _copy(self, version: StoreVersion, operator: int, first: int, after: int) -> None:
        """Another job's: it goes on with its own, and may end."""
        others = self._connection.rows(sql.OPERATOR, version.job, version.operator)
        if not others:
            raise self._is_gone(version.job, version.operator)
        self._remove(operator, first, after)
        self._connection.count(sql.COPY_STATES, operator, others[0][0])
        self._connection.count(sql.COPY, operator, others[0][0], first, after, version.version)
        # Last: that job may be running, and what it has removed by then was perhaps not copied.
        self._check_floor(version, others[0][0], first, after)

    def _remove(self, operator: int, first: int, after: int) -> None:
        """What is there is none of this run's. Versions go on behind it, so that none means something else later.

        A checkpoint that names one of these is refused from now on: it would find nothing, or what comes next.
        """
        if first >= after:
            return
        ((removed,),) = self._connection.rows(sql.REMOVE_ALL, operator, first, after)
        ((floor,),) = self._connection.rows(sql.FLOOR, operator, first, after)
        if newest := max(removed, floor):
            self._version = max(self._version, newest + 1)
            self._connection.count(sql.RAISE_FLOORS, operator, self._owner.run, newest + 1, first, after - 1)

    def _check_floor(self, version: StoreVersion, operator: int, first: int, after: int) -> None:
        ((floor,),) = self._connection.rows(sql.FLOOR, operator, first, after)
        if floor > version.version:
            raise CheckpointError(
                f"the state of the operator '{version.operator}' of job {version.job} is that of a checkpoint that is "
                "older than the oldest that is retained, and PostgreSQL has not all of it any more: start from a "
                "retained one, or from a savepoint"
            )

    def _is_gone(self, job: str, operator: str) -> CheckpointError:
        return CheckpointError(
            f"the state of the operator '{operator}' of job {job} is not in PostgreSQL any more: start from a "
            "savepoint, or from a checkpoint that is retained"
        )

    def _is_fenced(self) -> CheckpointError:
        return CheckpointError(
            f"the state of the operator '{self._owner.operator}' in PostgreSQL belongs to a later run of job "
            f"{self._owner.job}: this one was taken for dead, and ends"
        )

    def _own(self) -> int:
        if self._operator is None:
            self.begin_with(())
        assert self._operator is not None
        return self._operator

    def _state(self, prefix: bytes) -> int:
        number = self._states.get(prefix)
        if number is None:
            operator, name = self._own(), self._names[prefix]
            self._connection.count(sql.ADD_STATE, operator, name)
            number = self._states[prefix] = self._connection.rows(sql.STATE, operator, name)[0][0]
        return number

    # Entries.

    def get(self, key: bytes) -> bytes | None:
        """The newest value of a key; None if there is none."""
        value = self._recent.get(key)
        if value is ABSENT:
            if key.startswith(NUMBERS_GROUP, _PREFIX_BYTES):
                self._own()
                return self._numbers.get(self._names[key[:_PREFIX_BYTES]])
            value = self.get_at(self._connection, key, _NEWEST)
            self._recent.put(key, value)
        return value  # type: ignore[no-any-return]

    def get_at(self, connection: Connection, key: bytes, version: int) -> bytes | None:
        """The value of a key as of a version."""
        state, group, rest = self._state(key[:_PREFIX_BYTES]), _group_of(key), key[_GROUP_BYTES:]
        found = connection.rows(sql.GET, state, group, rest, version)
        value: bytes | None = found[0][0] if found else None
        return value

    def items(self, prefix: bytes, start: bytes = b"") -> Iterator[Entry]:
        """All entries whose keys begin with `prefix`, as they are at the call, sorted by key."""
        return self.items_at(self._connection, prefix, start, None)

    def some(self, prefix: bytes) -> Iterator[Entry]:
        """Some entries whose keys begin with `prefix`."""
        return itertools.islice(self.items_at(self._connection, prefix, b"", None, _SOME_ENTRIES), _SOME_ENTRIES)

    def items_at(
        self,
        connection: Connection,
        prefix: bytes,
        start: bytes,
        version: int | None,
        page_entries: int = _PAGE_ENTRIES,
    ) -> Iterator[Entry]:
        """The same as of a version; None: as of now."""
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
            return connection.rows(sql.PAGE, *parameters)

        entries = page(begin, _NEWEST if version is None else version)
        if version is None and len(entries) == page_entries:
            # What is written before the next page is read must not be on it.
            version = self._sealed()
        return self._pages(table, prefix, entries, lambda at: page(at, version or _NEWEST), page_entries)

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
        """The same with a version that was sealed, in another thread."""
        self._raise_floor()
        self._write(self._beside, version.version, entries)

    def _write(self, connection: Connection, version: int, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        rest = iter(entries)
        # Without entries nothing is asked: a table may be filled with nothing before it is known what it begins with.
        while batch := dict(itertools.islice(rest, _BATCH_ENTRIES)):
            operator = self._own()
            for key in [key for key in batch if key.startswith(NUMBERS_GROUP, _PREFIX_BYTES)]:
                number = batch.pop(key)
                assert number is not None
                self._numbers[self._names[key[:_PREFIX_BYTES]]] = number
            keys = (
                [self._state(key[:_PREFIX_BYTES]) for key in batch],
                [_group_of(key) for key in batch],
                [key[_GROUP_BYTES:] for key in batch],
            )
            written = connection.count(sql.PUT, operator, self._owner.run, version, *keys, list(batch.values()))
            if written < len(batch):
                raise self._is_fenced()
            for key, value in batch.items():
                self._recent.put(key, value)
            if self._floor is not None:
                connection.count(sql.PRUNE, *keys, self._floor)

    def all_written(self, version: StoreVersion) -> StoreVersion:
        """The version, complete. Removes what was removed before all retained checkpoints, in that other thread."""
        self._raise_floor()
        if self._floor is not None:
            states, owner = list(self._states.values()), self._owner
            self._beside.count(sql.PRUNE_REMOVED, states, owner.first, owner.after, self._floor)
        # Perhaps larger ones than the version has: that does no harm.
        numbers = {name: int.from_bytes(number, "big") for name, number in self._numbers.items()}
        return msgspec.structs.replace(version, numbers=numbers)

    def _raise_floor(self) -> None:
        """What only versions before the oldest that is retained have may be removed, once all know of it."""
        oldest, owner = self._oldest_retained(), self._owner
        if oldest is not None and oldest != self._floor:
            groups = (owner.first, owner.after - 1)
            if not self._beside.count(sql.RAISE_FLOORS, self._own(), owner.run, oldest, *groups):
                raise self._is_fenced()
            self._floor = oldest

    def ingest(self, entries: Iterable[Entry]) -> None:
        """Store values of new keys."""
        self.write(entries)

    def remove_range(self, first: bytes, after: bytes) -> None:
        """Remove all entries whose keys are not before `first`, and before `after`."""
        found = itertools.takewhile(lambda entry: entry[0] < after, self.items(first[:_PREFIX_BYTES], first))
        self.write((key, None) for key, _ in found)

    # Versions.

    def view(self) -> PostgresView:
        """The store as it is now."""
        self._own()
        return PostgresView(self, self._beside, self._sealed())

    def _sealed(self) -> int:
        # Another thread seals, too, where it reads many entries for what it writes.
        with self._sealing:
            self._version += 1
            return self._version - 1

    def seal(self) -> StoreVersion:
        """What is written from now on is newer than this version."""
        self._own()
        owner = self._owner
        for prefix in self._names:
            # In the task's thread: another one writes for the snapshot.
            self._state(prefix)
        return StoreVersion(owner.job, owner.operator, owner.first, owner.after, self._sealed())

    def completed(self, version: int) -> None:
        """A checkpoint with this version is complete."""
        self._completed = [*self._completed, version][-self._retained_max :]

    def _oldest_retained(self) -> int | None:
        """The version of the oldest checkpoint that is retained; None: it is not known, there were others before."""
        return self._completed[0] if len(self._completed) == self._retained_max else None

    def link(self) -> Any:
        """It has no files."""
        raise NotImplementedError("an external store is frozen by its version")

    def close(self) -> None:
        """Close its connections. The entries stay, as the checkpoints do that need them."""
        self._connection.close()
        self._beside.close()


class PostgresView:
    """A store as of a version. It may be read in the thread that writes snapshots."""

    def __init__(self, store: PostgresStore, connection: Connection, version: int) -> None:
        self._store = store
        self._connection = connection
        self._version = version

    def get(self, key: bytes) -> bytes | None:
        """The value of a key; None if there is none."""
        return self._store.get_at(self._connection, key, self._version)

    def items(self, prefix: bytes) -> Iterator[Entry]:
        """All entries whose keys begin with `prefix`, sorted by key."""
        return self._store.items_at(self._connection, prefix, b"", self._version)


def _group_of(key: bytes) -> int:
    return int.from_bytes(key[_PREFIX_BYTES:_GROUP_BYTES], "big")


def postgres_stores(settings: PostgresSettings) -> VersionedStores:
    """Stores for the tasks of a slot."""
    database = Database(settings.url, settings.user, settings.password)
    return VersionedStores(lambda owner: PostgresStore(settings, database, owner), settings.cached_entries)


def forget_job(settings: PostgresSettings, job: str) -> None:
    """Remove the state of a job that has ended, and of which no checkpoint is retained."""
    connection = Connection(Database(settings.url, settings.user, settings.password), f"penstock {job}")
    try:
        if connection.rows(sql.ARE_THERE)[0][0]:
            connection.count(sql.FORGET, job)
    finally:
        connection.close()
