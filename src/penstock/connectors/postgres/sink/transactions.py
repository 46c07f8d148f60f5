"""Prepared transactions of a sink: their names, their state in checkpoints, and the end of those that were left.

    penstock/<job>/<sink>/<subtask>/<attempt>/<number>

PostgreSQL keeps a prepared transaction, with its locks, until somebody ends it: over restarts, and without a timeout.
So what a killed attempt has left is ended by its successor, which finds it by name: docs/internals/decisions/0024.
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
"""How long the end of a session of a former attempt is waited for."""


@stored_as("postgres-transaction")
class PostgresTransaction(msgspec.Struct, frozen=True):
    """A prepared transaction: its name, and PostgreSQL's number of it, by which its end is known afterwards."""

    name: str
    xid: str


@stored_as("postgres-transactions-of-writer")
class TransactionsOfWriter(msgspec.Struct, frozen=True):
    """State of a writer: which subtask it was, of how many, and what it has prepared and not seen committed."""

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
        """Names have at most 200 bytes, so of the sink's uid there is a digest."""
        sink = f"penstock/{context.job_id}/{_digest(context.operator_id)}/"
        return cls(sink, context.subtask, context.attempt.replace("/", "_"))

    def transaction(self, number: int) -> str:
        """The name of one."""
        return f"{self.sink}{self.subtask}/{self.attempt}/{number}"

    @property
    def session_prefix(self) -> str:
        """The beginning of the session names of all subtasks of the sink. A name has at most 63 bytes."""
        return f"penstock {_digest(self.sink)} "

    @property
    def session(self) -> str:
        """The name of the session."""
        epoch, number = order_of(self.attempt)
        return f"{self.session_prefix}{self.subtask} {epoch}-{number}"

    def is_of_former(self, name: str) -> bool:
        """Whether a transaction, or a session, of the sink is of an earlier attempt, of whichever subtask."""
        attempt = name.split("/")[4] if "/" in name else f"-{name.rpartition(' ')[2]}-"
        return order_of(attempt) < order_of(self.attempt)


def end_former(session: Session, names: TransactionNames, former: FormerSubtasks, kept: set[str]) -> None:
    """End the sessions of former attempts, and roll back what they have prepared.

    `kept`: names that the restored checkpoint commits.
    """
    # A process that was stopped, or is cut off, could prepare one after it was looked for.
    sessions = session.execute(
        "SELECT pid, application_name FROM pg_stat_activity WHERE starts_with(application_name, %s)",
        names.session_prefix,
    )
    for pid, name in sessions:
        subtask = int(name.removeprefix(names.session_prefix).split(" ")[0])
        if names.is_of_former(name) and former.include(subtask):
            _log.info("the session %d of a former attempt of subtask %d is ended", pid, subtask)
            session.execute("SELECT pg_terminate_backend(%s, %s)", pid, _END_MS)
    prepared = session.execute(
        "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, %s)", names.sink
    )
    for (name,) in prepared:
        subtask = int(name.removeprefix(names.sink).split("/")[0])
        if name not in kept and names.is_of_former(name) and former.include(subtask):
            _log.info("the prepared transaction '%s' of a former attempt is rolled back", name)
            session.end_prepared(name, commit=False)


def _digest(text: str) -> str:
    return hashlib.blake2s(text.encode(), digest_size=8).hexdigest()
