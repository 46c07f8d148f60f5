"""Writers of a PostgresSink: in batches, and in prepared transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.api.sink import SinkContext, SinkWriter
from penstock.connectors.base.batch_writer import BatchWriter
from penstock.connectors.base.execution import Execution
from penstock.connectors.base.former_subtasks import FormerSubtasks
from penstock.connectors.base.retries import retried
from penstock.connectors.postgres.connection import Database, TransientPostgresError
from penstock.connectors.postgres.sink.intake import Intake
from penstock.connectors.postgres.sink.session import Session
from penstock.connectors.postgres.sink.statement import Statement
from penstock.connectors.postgres.sink.transactions import (
    PostgresTransaction,
    TransactionNames,
    TransactionsOfWriter,
    end_earlier_attempts,
)

if TYPE_CHECKING:
    import pyarrow

    from penstock.connectors.postgres.sink.columns import ColumnStatement

_LOCK_TIMEOUT = "-c lock_timeout=30s"
"""A transaction that waits for a prepared one would wait forever if the checkpoint of that one waits for it."""


class StatementWriter(BatchWriter):
    """Write rows in batches (AT_LEAST_ONCE); a checkpoint waits for those before it.

    A batch is one transaction. If the connection is lost, it is written again in another session.
    """

    def __init__(self, database: Database, statement: Statement, execution: Execution, context: SinkContext) -> None:
        super().__init__(execution, context)
        self._database = database
        self._statement = statement
        self._name = f"penstock {context.operator_id} {context.subtask}"
        self._session: Session | None = None
        self._columns: ColumnStatement | None = None

    def encode(self, values: list[Any]) -> list[Any]:
        return self._statement.rows_of(values)

    def send(self, batch: list[Any]) -> None:
        self._send(lambda session: session.write(batch))

    def write_columns(self, batch: pyarrow.RecordBatch, timestamps: Any = None) -> None:
        """Write a batch as `write_chunk` writes its records."""
        self.start_interval()
        if self._columns is None:
            self._columns = _columns_of(self._statement)
        self._columns.add(batch)
        if self._columns.rows >= self._execution.batch_size:
            self.send_all()

    def send_all(self) -> None:
        super().send_all()
        if (columns := self._columns) is None:
            return
        for batch in columns.take(self._execution.batch_size):
            retried(
                lambda batch=batch: self._send(lambda session: columns.write(session, batch)),  # type: ignore[misc]
                self._execution.max_retries,
            )

    def _send(self, write: Callable[[Session], None]) -> None:
        if self._session is None:
            self._session = Session(self._database, self._name, self._statement.sql)
        try:
            write(self._session)
        except TransientPostgresError:
            self._session.close()
            self._session = None
            raise

    def close(self) -> None:
        if self._session is not None:
            self._session.close()


class TransactionalWriter(SinkWriter[Any]):
    """Write the rows between two checkpoints in one transaction (EXACTLY_ONCE). The driver commits prepared ones.

    Rows that may conflict with the previous transaction wait in memory until its checkpoint is complete, because it
    locks its rows.
    """

    def __init__(
        self,
        database: Database,
        statement: Statement,
        execution: Execution,
        context: SinkContext,
        restored: Sequence[TransactionsOfWriter],
    ) -> None:
        self._statement = statement
        self._size = execution.batch_size
        self._subtask = context.subtask
        self._parallelism = context.parallelism
        self._names = TransactionNames.of(context)
        self._number = 0
        self._rows: list[Sequence[Any]] = []
        self._columns: ColumnStatement | None = None
        self._intake = Intake()
        self._is_open = False
        self._undecided: list[int] = []
        """Checkpoints with transactions of this writer that are not known to be complete."""
        self._has_prepared = False
        """Whether a transaction is prepared for a checkpoint whose number `snapshot_state` receives."""
        self._prepared = [one for state in restored for one in state.prepared]
        """Transactions of earlier attempts and this one that may not be committed yet, in the order of preparation."""
        self._session = retried(
            lambda: Session(database, self._names.session, statement.sql, options=_LOCK_TIMEOUT), execution.max_retries
        )
        former = FormerSubtasks.of(context, [(state.subtask, state.parallelism) for state in restored])
        if former.owners:
            end_earlier_attempts(self._session, self._names, former, {one.name for one in self._prepared})

    def write(self, value: Any, timestamp: int | None) -> None:
        self.write_chunk([value], None)

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        rows = self._statement.rows_of(values)
        self._rows += rows
        self._write_full(len(self._rows), len(rows))

    def write_columns(self, batch: pyarrow.RecordBatch, timestamps: Any = None) -> None:
        """Write a batch as `write_chunk` writes its records."""
        if self._columns is None:
            self._columns = _columns_of(self._statement)
        self._columns.add(batch)
        self._write_full(self._columns.rows, batch.num_rows)

    def prepare_commit(self) -> list[PostgresTransaction]:
        self._write_all()
        if not self._is_open:
            return []
        names = [one.name for one in self._prepared]
        left = {name for (name,) in self._execute("SELECT gid FROM pg_prepared_xacts WHERE gid = ANY(%s)", names)}
        ((xid,),) = self._execute("SELECT pg_current_xact_id()::text")
        transaction = PostgresTransaction(self._names.transaction(self._number), xid)
        self._execute(f"PREPARE TRANSACTION {self._session.quoted(transaction.name)}")
        self._number += 1
        self._is_open = False
        self._has_prepared = True
        self._prepared = [one for one in self._prepared if one.name in left]
        self._prepared.append(transaction)
        return [transaction]

    def snapshot_state(self, checkpoint_id: int) -> list[TransactionsOfWriter]:
        if self._has_prepared:
            self._has_prepared = False
            self._undecided.append(checkpoint_id)
        return [TransactionsOfWriter(self._subtask, self._parallelism, list(self._prepared))]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._undecided = [one for one in self._undecided if one > checkpoint_id]

    def close(self) -> None:
        self._session.close()

    def _write_full(self, waiting: int, added: int) -> None:
        """Write the rows that wait if they are enough, and need not wait. `added`: how many of them are new."""
        wait_s = self._intake.buffered(added)
        if self._statement.may_wait and self._undecided:
            time.sleep(wait_s)
        elif waiting >= self._size:
            self._write_all()

    def _write_all(self) -> None:
        began_s = time.monotonic()
        rows, self._rows = self._rows, []
        columns = self._columns
        count = len(rows) + (0 if columns is None else columns.rows)
        batches = [] if columns is None else columns.take(self._size)
        if (rows or batches) and not self._is_open:
            self._execute("BEGIN")
            self._is_open = True
        for start in range(0, len(rows), self._size):
            self._session.write(rows[start : start + self._size])
        if columns is not None:
            for batch in batches:
                columns.write(self._session, batch)
        self._intake.written(count, time.monotonic() - began_s)

    def _execute(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self._session.execute(sql, *parameters)


def _columns_of(statement: Statement) -> ColumnStatement:
    # Programs on rows import nothing of columns.
    from penstock.connectors.postgres.sink.columns import ColumnStatement

    return ColumnStatement(statement)
