"""Commits prepared transactions on the driver, whichever process has prepared them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from penstock.api.sink import Committer
from penstock.common.errors import JobError
from penstock.connectors.base.retries import retried
from penstock.connectors.postgres.connection import Database
from penstock.connectors.postgres.sink.session import Session
from penstock.connectors.postgres.sink.transactions import PostgresTransaction

_log = logging.getLogger(__name__)


class TransactionLostError(JobError):
    """A transaction that a checkpoint names was rolled back before it could be committed."""


class PostgresCommitter(Committer):
    """Ends transactions by name: repeating that changes nothing. A session is for one call: jobs may run for months."""

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
            "the prepared transaction '%s' is there no more, and the server has forgotten how it ended, as it does "
            "after very many others: it was committed long ago, or was rolled back",
            one.name,
        )
    elif status != "committed":
        raise TransactionLostError(
            f"the prepared transaction '{one.name}' was rolled back before it could be committed. What it wrote is "
            "lost. Either somebody has done so, or the job has failed behind this savepoint, and has gone back to a "
            "checkpoint before it. Start again from an earlier savepoint, or accept the loss and start from a later one"
        )
