"""Detect that a table of a source of changes is no longer published, or was replaced by another one.

PostgreSQL removes a dropped table from its publication, and sends no changes of a new table with the same name. A
publication follows a renamed table, and not its name.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import msgspec

from penstock.common.errors import InputLostError
from penstock.common.stored import stored_as
from penstock.connectors.postgres.changes.session import Session
from penstock.connectors.postgres.connection import quoted

_log = logging.getLogger(__name__)

_BY_SCHEMAS_FROM = 150_000
_OF_SCHEMAS = """
    UNION SELECT s.oid FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid IN (
        SELECT relnamespace FROM pg_class WHERE oid = c.oid OR oid IN (SELECT relid FROM pg_partition_ancestors(c.oid)))
"""
_WATCHED = """
SELECT t.schemaname || '.' || t.tablename, c.oid::bigint, ARRAY(
    SELECT p.oid WHERE p.puballtables
    UNION SELECT r.oid FROM pg_publication_rel r WHERE r.prpubid = p.oid
        AND (r.prrelid = c.oid OR r.prrelid IN (SELECT relid FROM pg_partition_ancestors(c.oid))){schemas}
)::bigint[], ARRAY(
    SELECT kind FROM (VALUES ('insert', p.pubinsert), ('update', p.pubupdate), ('delete', p.pubdelete),
        ('truncate', p.pubtruncate)) AS published (kind, is_sent) WHERE is_sent
)::text[]
FROM pg_publication p JOIN pg_publication_tables t ON t.pubname = p.pubname
    JOIN pg_namespace n ON n.nspname = t.schemaname
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
WHERE p.pubname = %s ORDER BY 1
"""
_AT_NAME = (
    "SELECT c.oid::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname || '.' || c.relname = %s"
)
_RESTART = "start the job without its state, and it begins with the present rows"


@stored_as("postgres-watched-table")
class WatchedTable(msgspec.Struct, frozen=True):
    """A published table.

    `memberships`: the catalog's entries that publish it. A table that is added again has a new one.

    `kinds`: the published kinds of changes, as in CREATE PUBLICATION; empty in a state of an earlier version.
    """

    name: str
    oid: int
    memberships: tuple[int, ...]
    kinds: tuple[str, ...] = ()


def watched_tables(
    session: Session, publication: str, names: Collection[str] | None, before: Collection[WatchedTable]
) -> tuple[WatchedTable, ...]:
    """Return the tables to watch from now on. Raise InputLostError if changes of a watched one are missing.

    `names`: the tables that the user named, with their schemas; None: all of the publication. In the latter case a
    table may be dropped, or removed from the publication, which is logged.
    """
    published = _published(session, publication)
    for one in before:
        _check(session=session, publication=publication, is_named=names is not None, one=one, published=published)
        if one.name in published:
            _check_kinds(publication, one, published[one.name])
    return tuple(one for one in published.values() if names is None or one.name in names)


def _published(session: Session, publication: str) -> dict[str, WatchedTable]:
    has_schemas = session.connection.info.server_version >= _BY_SCHEMAS_FROM
    rows = session.execute(_WATCHED.replace("{schemas}", _OF_SCHEMAS if has_schemas else ""), publication)
    return {name: WatchedTable(name, oid, tuple(entries), tuple(kinds)) for name, oid, entries, kinds in rows}


def _check(
    session: Session, publication: str, is_named: bool, one: WatchedTable, published: Mapping[str, WatchedTable]
) -> None:
    now = published.get(one.name)
    if now is None:
        _check_absent(session=session, publication=publication, is_named=is_named, one=one, published=published)
    elif now.oid != one.oid:
        text = f"{one.name} is another table than before: it was dropped and created again, or one was renamed to it"
        if is_named or not _is_seen_since(one, now):
            raise InputLostError(f"{text}. Changes of it may be missing: {_RESTART}")
        _log.warning("%s. Its changes are read. The rows of the dropped table are not reported as deleted", text)
    elif not _is_seen_since(one, now):
        raise InputLostError(
            f"{one.name} was removed from the publication '{publication}' and added again, and changes in between are "
            f"lost: {_RESTART}"
        )


def _check_kinds(publication: str, one: WatchedTable, now: WatchedTable) -> None:
    missing = [kind for kind in one.kinds if kind not in now.kinds]
    if missing:
        name = quoted(publication).replace("%%", "%")
        raise InputLostError(
            f"the publication '{publication}' no longer publishes {' and '.join(missing)} of {one.name}, and these "
            f"since then are lost: ALTER PUBLICATION {name} SET (publish = '{', '.join(one.kinds)}'), and {_RESTART}"
        )


def _check_absent(
    session: Session, publication: str, is_named: bool, one: WatchedTable, published: Mapping[str, WatchedTable]
) -> None:
    found = session.execute(_AT_NAME, one.name)
    if found and found[0][0] != one.oid:
        raise InputLostError(
            f"{one.name} is another table than the watched one, and the publication "
            f"'{publication}' lacks it: the table was dropped and created again, or another was renamed to it. "
            f"{_remedy(publication, one)}"
        )
    if is_named:
        what = "was removed from" if found else "was dropped or renamed, and is no longer in"
        raise InputLostError(
            f"{one.name} {what} the publication '{publication}', and its changes since then are missing. "
            f"{_remedy(publication, one)}"
        )
    if one.oid not in {other.oid for other in published.values()}:
        _log.warning("%s is no longer in the publication '%s': its changes are not read", one.name, publication)


def _is_seen_since(one: WatchedTable, now: WatchedTable) -> bool:
    return not set(one.memberships).isdisjoint(now.memberships)


def _remedy(publication: str, one: WatchedTable) -> str:
    name = quoted(publication).replace("%%", "%")
    return f"ALTER PUBLICATION {name} ADD TABLE {one.name}, and {_RESTART}"
