"""EXACTLY_ONCE without prepared transactions: checkpoints contain the rows, which are written after completion.

A batch is written in one transaction with its mark, which shows a restored job that the batch was written. The table of
marks has one row for each log, that is, for one writer in one attempt. A writer writes its own batches in order, so the
last one suffices; batches of a log that other writers restored are listed. docs/internals/decisions/0024.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from penstock.api.sink import SinkContext
from penstock.common.errors import ConfigurationError
from penstock.connectors.base.execution import Execution
from penstock.connectors.base.former_subtasks import FormerSubtasks
from penstock.connectors.base.log_writer import Batch, Logged, LogWriter
from penstock.connectors.base.retries import retried
from penstock.connectors.postgres.connection import Database, PostgresError, TransientPostgresError
from penstock.connectors.postgres.sink.intake import Intake
from penstock.connectors.postgres.sink.session import Session
from penstock.connectors.postgres.sink.statement import Statement
from penstock.connectors.postgres.sink.transactions import TransactionNames, TransactionsOfWriter, end_earlier_attempts

TABLE = "penstock_batches"
_CREATE = f"""CREATE TABLE {TABLE} (
    log text PRIMARY KEY, upto bigint NOT NULL, others bigint[] NOT NULL, written_at timestamptz NOT NULL
)"""
_NOT_YET = f"WHERE {TABLE}.upto < %s AND NOT %s = ANY({TABLE}.others) RETURNING log"
_MARK_OWN = f"""INSERT INTO {TABLE} VALUES (%s, %s, '{{}}', now())
    ON CONFLICT (log) DO UPDATE SET upto = EXCLUDED.upto, written_at = now() {_NOT_YET}"""
_MARK_RESTORED = f"""INSERT INTO {TABLE} VALUES (%s, -1, ARRAY[%s::bigint], now())
    ON CONFLICT (log) DO UPDATE SET others = {TABLE}.others || EXCLUDED.others, written_at = now() {_NOT_YET}"""


def create_marks(session: Session) -> None:
    """Create the table of marks if it does not exist. Raise ConfigurationError if the user may not."""
    ((found,),) = session.execute("SELECT to_regclass(%s) IS NOT NULL", TABLE)
    if found:
        return
    try:
        session.execute(_CREATE)
    except TransientPostgresError:
        raise
    except PostgresError as error:
        # Another job may have created it meanwhile.
        ((found,),) = session.execute("SELECT to_regclass(%s) IS NOT NULL", TABLE)
        if not found:
            raise ConfigurationError(
                f"the write-ahead log needs the table {TABLE} for its marks, which cannot be created: {error}\n"
                f"Have a user with that right create it, and grant the user of the job access to it: {_CREATE}"
            ) from None


class WriteAheadWriter(LogWriter[Any]):
    """Log the rows of records. A row that the server refuses is reported when its checkpoint is complete."""

    def __init__(
        self,
        database: Database,
        statement: Statement,
        execution: Execution,
        context: SinkContext,
        restored: Sequence[TransactionsOfWriter],
        log: Sequence[Logged],
    ) -> None:
        self._database = database
        self._statement = statement
        self._execution = execution
        self._names = TransactionNames.of(context)
        self._state = TransactionsOfWriter(context.subtask, context.parallelism, [])
        self._session: Session | None = None
        self._intake = Intake()
        former = FormerSubtasks.of(context, [(state.subtask, state.parallelism) for state in restored])
        to_commit = {one.name for state in restored for one in state.prepared}
        try:
            if former.owners:
                # A session of an earlier attempt may be blocked in the middle of a batch, which would make this one
                # wait.
                retried(lambda: self._end_earlier_attempts(former, to_commit), execution.max_retries)
            super().__init__(context, log)
        except BaseException:
            self.close()
            raise

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        rows = self._statement.rows_of(values)
        super().write_chunk(rows, None)
        if wait_s := self._intake.buffered(len(rows)):
            time.sleep(wait_s)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [self._state, *super().snapshot_state(checkpoint_id)]

    def send(self, batch: Batch) -> bool:
        began_s = time.monotonic()
        retried(lambda: self._send(batch), self._execution.max_retries)
        if self.is_own(batch):
            self._intake.written(len(batch.values), time.monotonic() - began_s)
        return True

    def close(self) -> None:
        if self._session is not None:
            self._session.close()

    def _end_earlier_attempts(self, former: FormerSubtasks, to_commit: set[str]) -> None:
        session = Session(self._database, self._names.session)
        try:
            end_earlier_attempts(session, self._names, former, to_commit)
        finally:
            session.close()

    def _send(self, batch: Batch) -> None:
        session = self._connected()
        number = batch.checkpoint_id
        try:
            session.execute("BEGIN")
            mark = _MARK_OWN if self.is_own(batch) else _MARK_RESTORED
            if session.execute(mark, batch.log_id, number, number, number):
                for start in range(0, len(batch.values), self._execution.batch_size):
                    session.write(batch.values[start : start + self._execution.batch_size])
            session.execute("COMMIT")
        except BaseException:
            # The transaction ends with the session. The mark shows whether a commit was executed.
            session.close()
            self._session = None
            raise

    def _connected(self) -> Session:
        if self._session is None:
            self._session = Session(self._database, self._names.session, self._statement.sql)
        return self._session
