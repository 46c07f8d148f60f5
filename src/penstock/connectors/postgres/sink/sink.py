"""PostgresSink and its builder."""

from __future__ import annotations

from typing import Any

from penstock.api.sink import Committer, Sink, SinkContext, SinkWriter
from penstock.common.errors import ConfigurationError
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.base.execution import Execution
from penstock.connectors.base.log_writer import Batch, Batches, Logged
from penstock.connectors.postgres.connection import Database, checked_url
from penstock.connectors.postgres.sink.committer import PostgresCommitter
from penstock.connectors.postgres.sink.session import Session
from penstock.connectors.postgres.sink.statement import Statement, insert_into, with_question_marks
from penstock.connectors.postgres.sink.transactions import TransactionsOfWriter
from penstock.connectors.postgres.sink.write_ahead import WriteAheadWriter, create_marks
from penstock.connectors.postgres.sink.writers import StatementWriter, TransactionalWriter


class PostgresSink(Sink[Any]):
    """Writes rows to PostgreSQL. Made by `PostgresSink.builder()`, or by `JdbcSink.sink`.

    AT_LEAST_ONCE: in batches; after a failure some rows are written again, which changes nothing if they are updated
    by their key. EXACTLY_ONCE: in transactions that are prepared with a checkpoint and committed when it is complete;
    without checkpoints, when the job has succeeded. With the write-ahead log rows are in the checkpoints, and written
    when theirs is complete.
    """

    def __init__(
        self,
        database: Database,
        statement: Statement,
        execution: Execution,
        guarantee: DeliveryGuarantee,
        *,
        write_ahead: bool = False,
    ) -> None:
        self._database = database
        self._statement = statement
        self._execution = execution
        self._guarantee = guarantee
        self._write_ahead = write_ahead

    @staticmethod
    def builder() -> PostgresSinkBuilder:
        """Start to build one."""
        return PostgresSinkBuilder()

    def describe(self) -> str:
        how = " by a write-ahead log" if self._write_ahead else ""
        return f"{self._guarantee.value}{how}, {self._database}: {self._statement.sql}"

    def validate(self) -> None:
        """Raises PostgresError if the server is away or refuses the statement, ConfigurationError without psycopg.

        And where it has no prepared transactions for EXACTLY_ONCE.
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
        """Raises ConfigurationError with the write-ahead log, which is in checkpoints."""
        if self._write_ahead:
            raise ConfigurationError(
                "the write-ahead log of a PostgresSink is in the checkpoints of its job, and this one takes none: "
                "enable_checkpointing, in STREAMING mode, or allow prepared transactions on the server"
            )

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        """Create the writer of a subtask."""
        return self.restore_writer(context, [])

    def restore_writer(self, context: SinkContext, state: list[TransactionsOfWriter | Logged]) -> SinkWriter[Any]:
        """Create a writer; with EXACTLY_ONCE it rolls back what former attempts have left prepared.

        `state` may be that of a sink with the write-ahead log, whether this one has it or not.
        """
        log = [item for item in state if isinstance(item, (Batch, Batches))]
        transactions = [item for item in state if isinstance(item, TransactionsOfWriter)]
        if not context.checkpointing:
            self.validate_without_checkpoints()
        if log or self._write_ahead:
            logged = WriteAheadWriter(self._database, self._statement, self._execution, context, transactions, log)
            if self._write_ahead:
                return logged
            # All that it has restored is written.
            logged.close()
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return StatementWriter(self._database, self._statement, self._execution, context)
        return TransactionalWriter(self._database, self._statement, self._execution, context, transactions)

    def create_committer(self) -> Committer | None:
        """A committer of transactions, with EXACTLY_ONCE."""
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return None
        return PostgresCommitter(self._database, self._execution.max_retries)

    def _check_prepared_transactions(self, session: Session) -> None:
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return
        ((limit,),) = session.execute("SHOW max_prepared_transactions")
        if int(limit) == 0:
            raise ConfigurationError(
                f"EXACTLY_ONCE needs prepared transactions, and PostgreSQL at {self._database} has none: set "
                "max_prepared_transactions in postgresql.conf to twice the number of subtasks of all sinks or more, "
                "and start it again. Or set_write_ahead_log(True): rows are then held in checkpoints. Or use "
                "AT_LEAST_ONCE with key columns: a row that is written again then replaces itself"
            )

    def _check_statement(self, session: Session) -> None:
        # The server parses it, and finds tables and columns, without carrying it out.
        session.execute(f"PREPARE penstock_check AS {self._statement.numbered()}")


class PostgresSinkBuilder:
    """Settings of a PostgresSink. Each method returns the builder."""

    def __init__(self) -> None:
        self._database: Database | None = None
        self._user_name: str | None = None
        self._password: str | None = None
        self._table: str | None = None
        self._columns: tuple[str, ...] = ()
        self._key_columns: tuple[str, ...] = ()
        self._statement: Statement | None = None
        self._execution = Execution()
        self._guarantee = DeliveryGuarantee.AT_LEAST_ONCE
        self._write_ahead = False

    def set_url(self, url: str) -> PostgresSinkBuilder:
        """Set the database: `postgresql://host:5432/database`, with libpq's parameters after a `?`."""
        self._database = Database(checked_url(url))
        return self

    def set_user_name(self, user_name: str) -> PostgresSinkBuilder:
        """Set who connects. Default: as libpq has it, by url, environment (PGUSER) or the user of the process."""
        self._user_name = user_name
        return self

    def set_password(self, password: str) -> PostgresSinkBuilder:
        """Set the password. Default: as libpq has it, by url, environment (PGPASSWORD) or password file."""
        self._password = password
        return self

    def set_table(self, table: str) -> PostgresSinkBuilder:
        """Set the table, with a schema and a dot before it if need be. Needs `set_columns`."""
        self._table = table
        return self

    def set_columns(self, *columns: str) -> PostgresSinkBuilder:
        """Set the columns that are written: fields of the records by name, or all fields by position."""
        self._columns = columns
        return self

    def set_key_columns(self, *key_columns: str) -> PostgresSinkBuilder:
        """Update the row with the same values of these columns, if there is one. They need a unique index."""
        self._key_columns = key_columns
        return self

    def set_statement(self, sql: str) -> PostgresSinkBuilder:
        """Write by a statement of one's own, with `?` for each field of a record, in the place of a table."""
        self._statement = with_question_marks(sql)
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> PostgresSinkBuilder:
        """Set AT_LEAST_ONCE, which is the default, or EXACTLY_ONCE."""
        if delivery_guarantee not in (DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE):
            raise ValueError(f"a PostgresSink is AT_LEAST_ONCE or EXACTLY_ONCE, got {delivery_guarantee!r}")
        self._guarantee = delivery_guarantee
        return self

    def set_write_ahead_log(self, write_ahead_log: bool) -> PostgresSinkBuilder:
        """EXACTLY_ONCE where prepared transactions are off: hold rows in checkpoints, and write them after these.

        Needs checkpoints. Rows of an interval are in memory and in the checkpoint; one that the server refuses is found
        when its checkpoint is complete. Creates the table `penstock_batches`. Source: Flink, `GenericWriteAheadSink`.
        """
        self._write_ahead = write_ahead_log
        return self

    def set_batch_size(self, batch_size: int) -> PostgresSinkBuilder:
        """Set how many rows are written at once. Default: 5000."""
        self._execution = self._execution.with_batch_size(batch_size)
        return self

    def set_batch_interval_ms(self, batch_interval_ms: int) -> PostgresSinkBuilder:
        """Set how long a row waits for others, for AT_LEAST_ONCE. Default: 0, until a batch is full or a checkpoint."""
        self._execution = self._execution.with_batch_interval_ms(batch_interval_ms)
        return self

    def set_max_retries(self, max_retries: int) -> PostgresSinkBuilder:
        """Set how often a batch, or a commit, is tried again when the server was away. Default: 3."""
        self._execution = self._execution.with_max_retries(max_retries)
        return self

    def build(self) -> PostgresSink:
        """Create the sink. Raises ValueError if something necessary is missing."""
        if self._database is None:
            raise ValueError("a PostgresSink needs a database: set_url('postgresql://host:5432/database')")
        if (self._table is None) == (self._statement is None):
            raise ValueError("a PostgresSink needs either a table or a statement: set_table, set_statement")
        if self._table is not None:
            statement = insert_into(self._table, self._columns, self._key_columns)
        else:
            assert self._statement is not None
            if self._columns or self._key_columns:
                raise ValueError(
                    "a statement says which columns it writes: set_columns and set_key_columns are for tables"
                )
            statement = self._statement
        if self._write_ahead and self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            raise ValueError(
                f"the write-ahead log is for EXACTLY_ONCE, and the sink is {self._guarantee.name}: "
                "set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE), or leave the log out"
            )
        database = Database(self._database.url, self._user_name, self._password)
        return PostgresSink(database, statement, self._execution, self._guarantee, write_ahead=self._write_ahead)
