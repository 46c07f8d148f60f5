"""The replication slot, in which PostgreSQL retains changes until a job confirms them."""

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
"""How long to wait for the end of a session of an earlier attempt."""


class Slot(msgspec.Struct, frozen=True):
    """`confirmed_lsn`: transactions committed before it are not sent again.

    `pid`: the process that uses the slot, or None.
    """

    name: str
    confirmed_lsn: int
    pid: int | None
    application_name: str | None


def find_slot(session: Session, name: str) -> Slot | None:
    """Return the slot, or None if it does not exist. Raise SourceError if it cannot be used."""
    for plugin, is_in_database, status, confirmed_lsn, pid, application_name in session.execute(_SLOT, name):
        if plugin != _PLUGIN or not is_in_database:
            raise SourceError(
                f"the slot '{name}' must be of this database with the plugin pgoutput, got another database or {plugin}"
            )
        if status == "lost":
            raise InputLostError(
                f"the slot '{name}' has lost changes: PostgreSQL removed them by "
                "max_slot_wal_keep_size or idle_replication_slot_timeout. "
                f"SELECT pg_drop_replication_slot('{name}'), and start the job without its state"
            )
        return Slot(name, confirmed_lsn, pid, application_name)
    return None


def create_slot(session: Session, name: str) -> Slot:
    """Create the slot. PostgreSQL waits for the end of all present writing transactions."""
    _log.info("creating the slot '%s', PostgreSQL waits for open transactions", name)
    session.execute("SELECT pg_create_logical_replication_slot(%s, %s)", name, _PLUGIN)
    slot = find_slot(session, name)
    assert slot is not None, "the slot was just created"
    return slot


def slot_for(session: Session, name: str, split: ChangesSplit) -> Slot:
    """Return the slot if it has all changes from the position on. Raise InputLostError otherwise."""
    slot = find_slot(session, name)
    restart = "The job cannot continue from its state: start it without, and it begins with the present rows"
    if slot is None:
        raise InputLostError(f"the slot '{name}' was dropped, with its changes. {restart}")
    if slot.confirmed_lsn > split.lsn:
        raise InputLostError(
            f"the slot '{name}' has changes from {text_of(slot.confirmed_lsn)} on, but the job continues at "
            f"{text_of(split.lsn)}: the slot was created again or used by another job, or the state is not of the "
            f"latest checkpoint. {restart}"
        )
    return slot


class Attempt:
    """An attempt of a job. Its sessions have a name, by which the later of two attempts gets the slot."""

    def __init__(self, job: str) -> None:
        self._of_job = f"penstock changes {job} "
        self._began_us = 0

    def began(self, session: Session) -> None:
        """Record the start, by the server's clock. Called with each connection; only the first call counts."""
        if not self._began_us:
            ((self._began_us,),) = session.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")

    @property
    def session_name(self) -> str:
        """Return the name of sessions, of at most 63 bytes."""
        return f"{self._of_job}{self._began_us}"

    def take_over(self, session: Session, slot: Slot) -> None:
        """End the session that uses the slot if it is of an earlier attempt, or an earlier one of this.

        Raise SourceError if a later attempt uses it, TransientPostgresError if another client does.
        """
        if slot.pid is None:
            return
        name = slot.application_name or ""
        began_us = name.removeprefix(self._of_job)
        if not began_us.isdecimal():
            raise TransientPostgresError(
                f"the slot '{slot.name}' is used by the process {slot.pid} of PostgreSQL ('{name}'): each job needs "
                "a slot of its own"
            )
        if int(began_us) > self._began_us:
            raise SourceError(f"a later attempt of this job uses the slot '{slot.name}'")
        _log.info("ending the session %d of an earlier attempt, which uses the slot '%s'", slot.pid, slot.name)
        session.execute("SELECT pg_terminate_backend(%s, %s)", slot.pid, _END_MS)
