"""The replication slot: PostgreSQL's own memory of what a job has not confirmed yet."""

from __future__ import annotations

import logging

import msgspec

from penstock.common.errors import InputLostError, SourceError
from penstock.connectors.postgres.changes.replication import text_of
from penstock.connectors.postgres.changes.session import Session
from penstock.connectors.postgres.changes.split import ChangesSplit
from penstock.connectors.postgres.connection import TransientPostgresError

_log = logging.getLogger(__name__)

_SLOT = """
SELECT s.plugin, s.database = current_database(), s.wal_status, (s.confirmed_flush_lsn - '0/0')::bigint, s.active_pid,
    a.application_name
FROM pg_replication_slots s LEFT JOIN pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = %s
"""
_PLUGIN = "pgoutput"
_END_MS = 10_000
"""How long the end of a session of a former attempt is waited for."""


class Slot(msgspec.Struct, frozen=True):
    """`confirmed_lsn`: transactions committed before it are not sent again. `pid`: of who uses it; None: nobody."""

    name: str
    confirmed_lsn: int
    pid: int | None
    application_name: str | None


def find_slot(session: Session, name: str) -> Slot | None:
    """Return the slot, or None if it does not exist. Raise SourceError if it cannot be used."""
    for plugin, is_here, status, confirmed_lsn, pid, application_name in session.execute(_SLOT, name):
        if plugin != _PLUGIN or not is_here:
            raise SourceError(f"the slot '{name}' is another's: its plugin is {plugin}, or it is of another database")
        if status == "lost":
            raise InputLostError(
                f"the slot '{name}' is of no use: PostgreSQL has removed what it had to keep, by "
                "max_slot_wal_keep_size or idle_replication_slot_timeout. "
                f"SELECT pg_drop_replication_slot('{name}'), and start the job without its state"
            )
        return Slot(name, confirmed_lsn, pid, application_name)
    return None


def create_slot(session: Session, name: str) -> Slot:
    """Make it. PostgreSQL waits for the end of all transactions that write at present."""
    _log.info("the slot '%s' is made; PostgreSQL waits for the transactions that are open", name)
    session.execute("SELECT pg_create_logical_replication_slot(%s, %s)", name, _PLUGIN)
    slot = find_slot(session, name)
    assert slot is not None, "it was just made"
    return slot


def slot_for(session: Session, name: str, split: ChangesSplit) -> Slot:
    """The slot that has all changes from the position on. Raises InputLostError if it has not, or is gone."""
    slot = find_slot(session, name)
    again = "The job can't go on from its state: start it without, and it begins with the rows that are there"
    if slot is None:
        raise InputLostError(f"the slot '{name}' is gone, and the changes that it has kept. {again}")
    if slot.confirmed_lsn > split.lsn:
        raise InputLostError(
            f"the slot '{name}' has changes from {text_of(slot.confirmed_lsn)} on, and the job continues at "
            f"{text_of(split.lsn)}: the slot was created again or used by another, or the state is of an earlier "
            f"checkpoint than the last. {again}"
        )
    return slot


class Attempt:
    """An attempt of a job, which uses a slot by sessions of a name. The later of two attempts gets the slot."""

    def __init__(self, job: str) -> None:
        self._of_job = f"penstock changes {job} "
        self._began_us = 0

    def began(self, session: Session) -> None:
        """Called with each connection; the first one counts, by the server's clock."""
        if not self._began_us:
            ((self._began_us,),) = session.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")

    @property
    def session_name(self) -> str:
        """A name has at most 63 bytes."""
        return f"{self._of_job}{self._began_us}"

    def take_over(self, session: Session, slot: Slot) -> None:
        """End the session of a former attempt that has the slot, or an earlier one of this.

        Raises SourceError if a later attempt has it, TransientPostgresError if somebody else has.
        """
        if slot.pid is None:
            return
        name = slot.application_name or ""
        began_us = name.removeprefix(self._of_job)
        if not began_us.isdecimal():
            raise TransientPostgresError(
                f"the slot '{slot.name}' is in use, by the process {slot.pid} of PostgreSQL ('{name}'): each job needs "
                "a slot of its own"
            )
        if int(began_us) > self._began_us:
            raise SourceError(f"the slot '{slot.name}' was taken over by a later attempt of this job")
        _log.info("the session %d of a former attempt, which has the slot '%s', is ended", slot.pid, slot.name)
        session.execute("SELECT pg_terminate_backend(%s, %s)", slot.pid, _END_MS)
