"""PostgresChangeSource and its builder."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source, SplitEnumerator
from penstock.connectors.base.dividing_enumerator import DividingEnumerator
from penstock.connectors.base.options import checked_at_least
from penstock.connectors.base.retries import retried
from penstock.connectors.postgres.changes.capture import Capture
from penstock.connectors.postgres.changes.change import Change
from penstock.connectors.postgres.changes.fetcher import Fetcher
from penstock.connectors.postgres.changes.reader import PostgresChangeReader
from penstock.connectors.postgres.changes.split import ChangesSplit
from penstock.connectors.postgres.changes.startup import StartupOptions
from penstock.connectors.postgres.connection import Database, checked_url

_SLOT_NAME = re.compile(r"[a-z0-9_]{1,63}")


class PostgresChangeSource(Source[Change]):
    """Reads what tables of PostgreSQL have, and then each change of them. Made by `PostgresChangeSource.builder()`.

    Each row and each change is emitted once, in the order of commits: positions are in the checkpoints. One subtask
    reads. Timestamps are those of the commits. Source: Flink CDC docs, "Postgres CDC Connector".
    """

    def __init__(self, capture: Capture, fetch_size: int, max_retries: int) -> None:
        self._capture = capture
        self._fetch_size = fetch_size
        self._max_retries = max_retries

    @staticmethod
    def builder() -> PostgresChangeSourceBuilder:
        """Start to build one."""
        return PostgresChangeSourceBuilder()

    def describe(self) -> str:
        capture = self._capture
        tables = ", ".join(capture.tables) if capture.tables is not None else f"publication {capture.publication}"
        return f"changes of {tables} by slot {capture.slot}, {capture.database}"

    def get_boundedness(self) -> Boundedness:
        """CONTINUOUS_UNBOUNDED."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def validate(self) -> None:
        """Raises PostgresError if the server is away, SourceError if a setting, a right or a key is missing there."""
        self._capture.check()

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Create an enumerator, which makes publication and slot when it starts, unless they are there."""
        return DividingEnumerator(context, self._begin)

    def restore_enumerator(self, context: EnumeratorContext, state: Sequence[ChangesSplit] | None) -> SplitEnumerator:
        """Create one with the split, if it was not assigned."""
        return DividingEnumerator(context, self._begin, state)

    def create_reader(self, context: ReaderContext) -> PostgresChangeReader:
        """Create the reader of one subtask."""

        def fetch(split: ChangesSplit, notify: Callable[[], None]) -> Fetcher:
            return Fetcher(self._capture, split, self._fetch_size, self._max_retries, notify)

        return PostgresChangeReader(context, fetch)

    def _begin(self) -> list[ChangesSplit]:
        return [retried(self._capture.begin, self._max_retries)]


class PostgresChangeSourceBuilder:
    """Settings of a PostgresChangeSource. Each method returns the builder."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._user_name: str | None = None
        self._password: str | None = None
        self._slot: str | None = None
        self._publication: str | None = None
        self._tables: tuple[str, ...] | None = None
        self._startup = StartupOptions.initial()
        self._fetch_size = 1000
        self._max_retries = 3

    def set_url(self, url: str) -> PostgresChangeSourceBuilder:
        """Set the database: `postgresql://host:5432/database`, with libpq's parameters after a `?`."""
        self._url = checked_url(url)
        return self

    def set_user_name(self, user_name: str) -> PostgresChangeSourceBuilder:
        """Set who connects: a role that may replicate. Default: as libpq has it, by url, environment or process."""
        self._user_name = user_name
        return self

    def set_password(self, password: str) -> PostgresChangeSourceBuilder:
        """Set the password. Default: as libpq has it, by url, environment (PGPASSWORD) or password file."""
        self._password = password
        return self

    def set_slot_name(self, slot_name: str) -> PostgresChangeSourceBuilder:
        """Set the replication slot, which is made unless it is there. Each job needs one of its own."""
        if not _SLOT_NAME.fullmatch(slot_name):
            raise ValueError(f"a slot's name has up to 63 small letters, digits and underscores, got {slot_name!r}")
        self._slot = slot_name
        return self

    def set_publication_name(self, publication_name: str) -> PostgresChangeSourceBuilder:
        """Set the publication, which is made for the tables unless it is there. Default: the name of the slot."""
        self._publication = publication_name
        return self

    def set_tables(self, *tables: str) -> PostgresChangeSourceBuilder:
        """Set what is captured, each with a schema and a dot before it if need be. Default: all of the publication."""
        if not tables or not all(tables):
            raise ValueError(f"set_tables takes names of tables, got {tables!r}")
        self._tables = tables
        return self

    def set_startup_options(self, startup_options: StartupOptions) -> PostgresChangeSourceBuilder:
        """Set where a job without state begins. Default: `StartupOptions.initial()`."""
        if not isinstance(startup_options, StartupOptions):
            raise TypeError(f"expected StartupOptions such as StartupOptions.latest(), got {startup_options!r}")
        self._startup = startup_options
        return self

    def set_fetch_size(self, fetch_size: int) -> PostgresChangeSourceBuilder:
        """Set how many of the rows that are there the server sends at once. Default: 1000."""
        self._fetch_size = checked_at_least("fetch_size", fetch_size, 1)
        return self

    def set_max_retries(self, max_retries: int) -> PostgresChangeSourceBuilder:
        """Set how often a server that is away is asked again before the job fails. Default: 3."""
        self._max_retries = checked_at_least("max_retries", max_retries, 0)
        return self

    def build(self) -> PostgresChangeSource:
        """Create the source. Raises ValueError if something necessary is missing."""
        if self._url is None:
            raise ValueError("a PostgresChangeSource needs a database: set_url('postgresql://host:5432/database')")
        if self._slot is None:
            raise ValueError("a PostgresChangeSource needs the name of a replication slot: set_slot_name")
        publication = self._publication or self._slot
        database = Database(self._url, self._user_name, self._password)
        capture = Capture(database, self._slot, publication, self._tables, self._startup.mode)
        return PostgresChangeSource(capture, self._fetch_size, self._max_retries)
