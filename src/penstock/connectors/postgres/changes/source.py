"""A source of the changes in tables of PostgreSQL."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from penstock.api.source import Boundedness, EnumeratorContext, Nothing, ReaderContext, Source, SplitEnumerator
from penstock.connectors.base.former_builder import HasFormerBuilder
from penstock.connectors.base.options import checked_at_least, checked_names, checked_text
from penstock.connectors.base.retries import retried
from penstock.connectors.base.split_enumerator import DividingEnumerator
from penstock.connectors.base.split_reader import Chunk, SplitReader
from penstock.connectors.postgres.changes.capture import Capture
from penstock.connectors.postgres.changes.change import Change
from penstock.connectors.postgres.changes.fetcher import Fetcher
from penstock.connectors.postgres.changes.split import ChangesSplit
from penstock.connectors.postgres.changes.startup import StartupOptions
from penstock.connectors.postgres.changes.table_rows import Fetched
from penstock.connectors.postgres.connection import Database, checked_url


class PostgresChangeReader(SplitReader[Any]):
    """Read the only split, in one of the subtasks.

    Confirm a position when a checkpoint that contains it is complete.
    """

    def __init__(self, context: ReaderContext, fetch: Callable[[ChangesSplit, Callable[[], None]], Fetcher]) -> None:
        super().__init__(context)
        self._fetch = fetch
        self._fetcher: Fetcher | None = None
        self._current: Fetched | None = None
        self._taken = 0
        self._lsn = 0
        """The position of the split."""
        self._prepared: deque[tuple[int, int]] = deque()
        """Checkpoints that are not complete, and the position in each."""
        context.metric_group.gauge("pendingBytes", self._pending_bytes)

    def read(self, split: ChangesSplit, max_records: int) -> Chunk | Nothing:
        if self._fetcher is None:
            self._fetcher = self._fetch(split, self.context.notify_available)
        if self._current is None:
            self._current, self._taken = self._fetcher.take(), 0
        fetched = self._current
        if fetched is None:
            return Nothing()
        upto = min(self._taken + max_records, len(fetched.changes))
        changes = fetched.changes[self._taken : upto]
        self._taken = upto
        if upto == len(fetched.changes):
            self._current = None
        position = fetched.position_after(upto)
        self._lsn = position.lsn
        if not self.context.checkpointing:
            # Without checkpoints the position is never restored.
            self._fetcher.confirm(position.lsn)
        return Chunk(changes, position, [change.time_ms for change in changes])

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        self._prepared.append((checkpoint_id, self._lsn))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        lsn = 0
        while self._prepared and self._prepared[0][0] <= checkpoint_id:
            _, lsn = self._prepared.popleft()
        if lsn and self._fetcher is not None:
            self._fetcher.confirm(lsn)

    def close(self) -> None:
        fetcher, self._fetcher, self._current = self._fetcher, None, None
        if fetcher is not None:
            fetcher.close()

    def _pending_bytes(self) -> int:
        # The thread of heartbeats calls this while the reader works.
        fetcher = self._fetcher
        return fetcher.pending_bytes(self._lsn) if fetcher is not None and self._lsn else 0


_SLOT_NAME = re.compile(r"[a-z0-9_]{1,63}")


class PostgresChangeSource(Source[Change], HasFormerBuilder):
    """Read the rows of tables of PostgreSQL, and then each change of them.

    Each row and each change is emitted once, in the order of commits, because checkpoints contain the positions. One
    subtask reads. Timestamps are those of the commits. Source: Flink CDC docs, "Postgres CDC Connector".
    """

    def __init__(
        self,
        *,
        url: str,
        slot_name: str,
        publication_name: str | None = None,
        tables: Sequence[str] | None = None,
        startup_options: StartupOptions | None = None,
        user_name: str | None = None,
        password: str | None = None,
        fetch_size: int = 1000,
        max_retries: int = 3,
    ) -> None:
        """Raise TypeError or ValueError for a wrong argument.

        * `url`: the database, `postgresql://host:5432/database`, with libpq's parameters after a `?`.
        * `slot_name`: the replication slot, created if it does not exist. Each job needs a slot of its own.
        * `publication_name`: the publication, created for the tables if it does not exist. Default: `slot_name`.
        * `tables`: the captured tables, each after a schema and a dot if necessary. Default: all of the publication.
        * `startup_options`: where a job without state begins. Default: `StartupOptions.initial()`.
        * `user_name`, `password`: a role that may replicate. Default: from url, environment and password file.
        * `fetch_size`: rows per round trip, when the existing rows are read.
        * `max_retries`: how many connections may fail in a row before the job fails.
        """
        if not _SLOT_NAME.fullmatch(checked_text("slot_name", slot_name)):
            raise ValueError(f"slot_name must be up to 63 lowercase letters, digits and underscores, got {slot_name!r}")
        startup = StartupOptions.initial() if startup_options is None else startup_options
        if not isinstance(startup, StartupOptions):
            raise TypeError(f"startup_options must be StartupOptions such as StartupOptions.latest(), got {startup!r}")
        self._capture = Capture(
            database=Database(checked_url(url), user_name, password),
            slot=slot_name,
            publication=slot_name if publication_name is None else checked_text("publication_name", publication_name),
            tables=None if tables is None else checked_names("tables", tables),
            mode=startup.mode,
        )
        self._fetch_size = checked_at_least("fetch_size", fetch_size, 1)
        self._max_retries = checked_at_least("max_retries", max_retries, 0)

    def describe(self) -> str:
        capture = self._capture
        tables = ", ".join(capture.tables) if capture.tables is not None else f"publication {capture.publication}"
        return f"changes of {tables} by slot {capture.slot}, {capture.database}"

    def get_boundedness(self) -> Boundedness:
        """Return CONTINUOUS_UNBOUNDED."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def validate(self) -> None:
        """Raise PostgresError if the server is unavailable, SourceError if a setting, right or key is missing."""
        self._capture.check()

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Create an enumerator, which creates missing publication and slot when it starts."""
        return DividingEnumerator(context, self._begin)

    def restore_enumerator(self, context: EnumeratorContext, state: Sequence[ChangesSplit] | None) -> SplitEnumerator:
        """Create an enumerator with the split, if it was not assigned."""
        return DividingEnumerator(context, self._begin, state)

    def create_reader(self, context: ReaderContext) -> PostgresChangeReader:
        """Create the reader of one subtask."""

        def fetch(split: ChangesSplit, notify: Callable[[], None]) -> Fetcher:
            return Fetcher(
                capture=self._capture,
                split=split,
                fetch_size=self._fetch_size,
                max_retries=self._max_retries,
                notify=notify,
            )

        return PostgresChangeReader(context, fetch)

    def _begin(self) -> list[ChangesSplit]:
        return [retried(self._capture.begin, self._max_retries)]
