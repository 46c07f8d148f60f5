"""A sink to PostgreSQL."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.api.sink import Committer, Sink, SinkContext, SinkWriter
from penstock.common.errors import ConfigurationError, JobError
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee, checked_guarantee
from penstock.connectors.base.execution import Execution
from penstock.connectors.base.former_builder import HasFormerBuilder
from penstock.connectors.base.log_writer import Batch, Batches, Logged
from penstock.connectors.base.options import checked_names, checked_text
from penstock.connectors.base.retries import retried
from penstock.connectors.postgres.connection import Database, checked_url
from penstock.connectors.postgres.sink.session import Session
from penstock.connectors.postgres.sink.statement import Statement, insert_into, with_question_marks
from penstock.connectors.postgres.sink.transactions import PostgresTransaction, TransactionsOfWriter
from penstock.connectors.postgres.sink.write_ahead import WriteAheadWriter, create_marks
from penstock.connectors.postgres.sink.writers import StatementWriter, TransactionalWriter

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

_log = logging.getLogger(__name__)


class TransactionLostError(JobError):
    """A transaction of a checkpoint was rolled back before it could be committed."""


class PostgresCommitter(Committer):
    """End transactions by name, on the driver.

    Idempotent. Each call opens a session, because jobs may run for months.
    """

    def __init__(self, database: Database, max_retries: int) -> None:
        self._database = database
        self._max_retries = max_retries

    def commit(self, committables: Sequence[PostgresTransaction]) -> None:
        self._for_each(committables, _commit)

    def abort(self, committables: Sequence[PostgresTransaction]) -> None:
        self._for_each(committables, lambda session, one: session.end_prepared(one.name, commit=False))

    def _for_each(
        self, committables: Sequence[PostgresTransaction], call: Callable[[Session, PostgresTransaction], object]
    ) -> None:
        def for_each() -> None:
            session = Session(self._database, "penstock committer")
            try:
                for one in committables:
                    call(session, one)
            finally:
                session.close()

        if committables:
            retried(for_each, self._max_retries)


def _commit(session: Session, one: PostgresTransaction) -> None:
    if session.end_prepared(one.name, commit=True):
        return
    ((status,),) = session.execute("SELECT pg_xact_status(%s::text::xid8)", one.xid)
    if status is None:
        _log.warning(
            "the prepared transaction '%s' no longer exists, and the server no longer knows how it ended, because "
            "many others followed: it was committed or rolled back long ago",
            one.name,
        )
    elif status != "committed":
        raise TransactionLostError(
            f"the prepared transaction '{one.name}' was rolled back before it could be committed. What it wrote is "
            "lost. Either a user rolled it back, or the job failed after this savepoint and was restored from a "
            "checkpoint before it. Start again from an earlier savepoint, or accept the loss and start from a later one"
        )


class PostgresSink(Sink[Any], HasFormerBuilder):
    """Write rows to PostgreSQL. `JdbcSink.sink` makes one too.

    AT_LEAST_ONCE: in batches; after a failure some rows are written again, which has no effect if they are updated by
    their key. EXACTLY_ONCE: in transactions that are prepared with a checkpoint and committed when it is complete;
    without checkpoints, after the job has succeeded. With the write-ahead log, checkpoints contain the rows, which are
    written after the checkpoint is complete.
    """

    def __init__(
        self,
        *,
        url: str,
        table: str | None = None,
        columns: Sequence[str] = (),
        key_columns: Sequence[str] = (),
        statement: str | Statement | None = None,
        user_name: str | None = None,
        password: str | None = None,
        delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE,
        write_ahead_log: bool = False,
        batch_size: int = 5000,
        batch_interval_ms: int = 0,
        max_retries: int = 3,
    ) -> None:
        """Raise TypeError or ValueError for a wrong argument, and without exactly one of `table` and `statement`.

        * `url`: the database, `postgresql://host:5432/database`, with libpq's parameters after a `?`.
        * `table`: the table, after a schema and a dot if necessary.
        * `columns`: the columns that are written: fields of the records by name, or all fields by position.
        * `key_columns`: update the row with the same values of these columns, if there is one. They need a unique
          index. Default: insert every row.
        * `statement`: SQL of your own instead of a table, with `?` for each field of a record.
        * `user_name`, `password`: the user who connects. Default: from url, environment and password file.
        * `delivery_guarantee`: AT_LEAST_ONCE or EXACTLY_ONCE.
        * `write_ahead_log`: EXACTLY_ONCE without prepared transactions on the server: store rows in checkpoints, and
          write them when these are complete. The rows of an interval are in memory and in the checkpoint; a row that
          the server refuses is reported when its checkpoint is complete. Creates the table `penstock_batches`. Source:
          Flink, `GenericWriteAheadSink`.
        * `batch_size`: rows that are written together.
        * `batch_interval_ms`: how long a row waits for others, with AT_LEAST_ONCE. 0: until a batch is full, or for the
          next checkpoint.
        * `max_retries`: how often a batch, or a commit, is retried while the server is unavailable.
        """
        self._guarantee = checked_guarantee("PostgresSink", delivery_guarantee)
        if write_ahead_log and delivery_guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            raise ValueError(
                f"write_ahead_log=True needs delivery_guarantee=EXACTLY_ONCE, got {delivery_guarantee.name}"
            )
        self._database = Database(checked_url(url), user_name, password)
        self._statement = _statement_of(table, columns, key_columns, statement)
        self._execution = Execution.checked(batch_size, batch_interval_ms, max_retries)
        self._write_ahead = write_ahead_log

    def describe(self) -> str:
        how = " by a write-ahead log" if self._write_ahead else ""
        return f"{self._guarantee.value}{how}, {self._database}: {self._statement.sql}"

    def validate(self) -> None:
        """Raise PostgresError if the server is unavailable or refuses the statement.

        Raise ConfigurationError if psycopg is missing, and for EXACTLY_ONCE on a server without prepared transactions.
        """
        session = Session(self._database, "penstock")
        try:
            if self._write_ahead:
                create_marks(session)
            else:
                self._check_prepared_transactions(session)
            self._check_statement(session)
        finally:
            session.close()

    def validate_without_checkpoints(self) -> None:
        """Raise ConfigurationError with the write-ahead log, which checkpoints contain."""
        if self._write_ahead:
            raise ConfigurationError(
                "the write-ahead log of a PostgresSink needs checkpoints, and this job takes none: call "
                "enable_checkpointing, in STREAMING mode, or allow prepared transactions on the server"
            )

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        """Create the writer of a subtask."""
        return self.restore_writer(context, [])

    def restore_writer(self, context: SinkContext, state: list[TransactionsOfWriter | Logged]) -> SinkWriter[Any]:
        """Create a writer. With EXACTLY_ONCE it rolls back the prepared transactions of earlier attempts.

        `state` may be that of a sink with the write-ahead log, whether this one has it or not.
        """
        log = [item for item in state if isinstance(item, (Batch, Batches))]
        transactions = [item for item in state if isinstance(item, TransactionsOfWriter)]
        if not context.checkpointing:
            self.validate_without_checkpoints()
        if log or self._write_ahead:
            logged = WriteAheadWriter(
                database=self._database,
                statement=self._statement,
                execution=self._execution,
                context=context,
                restored=transactions,
                log=log,
            )
            if self._write_ahead:
                return logged
            # All of its restored rows are written.
            logged.close()
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return StatementWriter(self._database, self._statement, self._execution, context)
        return TransactionalWriter(
            database=self._database,
            statement=self._statement,
            execution=self._execution,
            context=context,
            restored=transactions,
        )

    def create_committer(self) -> Committer | None:
        """Return a committer of transactions with EXACTLY_ONCE, else None."""
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return None
        return PostgresCommitter(self._database, self._execution.max_retries)

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether batches of these columns can be written; the write-ahead log has rows."""
        # Programs on rows import nothing of columns.
        from penstock.connectors.postgres.sink.columns import can_write

        return not self._write_ahead and can_write(self._statement, columns)

    def _check_prepared_transactions(self, session: Session) -> None:
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return
        ((limit,),) = session.execute("SHOW max_prepared_transactions")
        if int(limit) == 0:
            raise ConfigurationError(
                f"EXACTLY_ONCE needs prepared transactions, which are off in PostgreSQL at {self._database}: set "
                "max_prepared_transactions in postgresql.conf to twice the number of subtasks of all sinks or more, "
                "and restart it. Or set write_ahead_log=True: checkpoints then contain the rows. Or use "
                "AT_LEAST_ONCE with key columns: a row that is written again then replaces itself"
            )

    def _check_statement(self, session: Session) -> None:
        # The server parses it, and finds tables and columns, without executing it.
        session.execute(f"PREPARE penstock_check AS {self._statement.numbered()}")


def _statement_of(
    table: str | None, columns: Sequence[str], key_columns: Sequence[str], statement: str | Statement | None
) -> Statement:
    if (table is None) == (statement is None):
        raise ValueError(
            f"a PostgresSink needs either a table or a statement, got {'neither' if table is None else 'both'}"
        )
    if table is not None:
        keys = checked_names("key_columns", key_columns) if key_columns else ()
        return insert_into(checked_text("table", table), checked_names("columns", columns), keys)
    if columns or key_columns:
        raise ValueError(
            f"columns and key_columns are for a table, not for a statement, got {[*columns, *key_columns]}"
        )
    return statement if isinstance(statement, Statement) else with_question_marks(checked_text("statement", statement))
