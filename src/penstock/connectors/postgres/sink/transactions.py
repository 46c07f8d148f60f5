"""Prepared transactions of a sink: their names, their state in checkpoints, and the end of abandoned ones.

    penstock/<job>/<sink>/<subtask>/<attempt>/<number>

PostgreSQL retains a prepared transaction, with its locks, until a client ends it, over restarts and without a timeout.
Therefore the successor of a killed attempt ends its transactions, which it finds by name:
docs/internals/decisions/0024.
"""

from __future__ import annotations

import hashlib
import logging
from typing import NamedTuple

import msgspec

from penstock.api.sink import SinkContext
from penstock.common.stored import stored_as
from penstock.connectors.base.attempts import order_of
from penstock.connectors.base.former_subtasks import FormerSubtasks
from penstock.connectors.postgres.sink.session import Session

_log = logging.getLogger(__name__)

_END_MS = 10_000
"""How long to wait for the end of a session of an earlier attempt."""


@stored_as("postgres-transaction")
class PostgresTransaction(msgspec.Struct, frozen=True):
    """A prepared transaction: its name, and PostgreSQL's number of it, which shows later how it ended."""

    name: str
    xid: str


@stored_as("postgres-transactions-of-writer")
class TransactionsOfWriter(msgspec.Struct, frozen=True):
    """State of a writer: its subtask and parallelism, and its prepared transactions that may not be committed yet."""

    subtask: int
    parallelism: int
    prepared: list[PostgresTransaction]


class TransactionNames(NamedTuple):
    """The names of transactions of one attempt of one subtask."""

    sink: str
    subtask: int
    attempt: str

    @classmethod
    def of(cls, context: SinkContext) -> TransactionNames:
        """Return the names for a writer. They have at most 200 bytes, so the sink's uid is replaced by a digest."""
        sink = f"penstock/{context.job_id}/{_digest(context.operator_id)}/"
        return cls(sink, context.subtask, context.attempt.replace("/", "_"))

    def transaction(self, number: int) -> str:
        """Return the name of a transaction."""
        return f"{self.sink}{self.subtask}/{self.attempt}/{number}"

    @property
    def session_prefix(self) -> str:
        """Return the prefix of the session names of all subtasks of the sink. A name has at most 63 bytes."""
        return f"penstock {_digest(self.sink)} "

    @property
    def session(self) -> str:
        """Return the name of the session."""
        epoch, number = order_of(self.attempt)
        return f"{self.session_prefix}{self.subtask} {epoch}-{number}"

    def is_of_earlier_attempt(self, name: str) -> bool:
        """Return whether a transaction, or a session, of the sink is of an earlier attempt, in any subtask."""
        attempt = name.split("/")[4] if "/" in name else f"-{name.rpartition(' ')[2]}-"
        return order_of(attempt) < order_of(self.attempt)


def end_earlier_attempts(
    session: Session, names: TransactionNames, former: FormerSubtasks, to_commit: set[str]
) -> None:
    """End the sessions of earlier attempts, and roll back their prepared transactions.

    `to_commit`: names that the restored checkpoint commits.
    """
    # End sessions first: a suspended or disconnected process could prepare a transaction after the query for them.
    sessions = session.execute(
        "SELECT pid, application_name FROM pg_stat_activity WHERE starts_with(application_name, %s)",
        names.session_prefix,
    )
    for pid, name in sessions:
        subtask = int(name.removeprefix(names.session_prefix).split(" ")[0])
        if names.is_of_earlier_attempt(name) and former.include(subtask):
            _log.info("ending the session %d of an earlier attempt of subtask %d", pid, subtask)
            session.execute("SELECT pg_terminate_backend(%s, %s)", pid, _END_MS)
    prepared = session.execute(
        "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, %s)", names.sink
    )
    for (name,) in prepared:
        subtask = int(name.removeprefix(names.sink).split("/")[0])
        if name not in to_commit and names.is_of_earlier_attempt(name) and former.include(subtask):
            _log.info("rolling back the prepared transaction '%s' of an earlier attempt", name)
            session.end_prepared(name, commit=False)


def _digest(text: str) -> str:
    return hashlib.blake2s(text.encode(), digest_size=8).hexdigest()
