"""The tables of state in PostgreSQL, and all statements on them."""

from __future__ import annotations

from typing import Final

TABLES_EXIST: Final = "SELECT to_regclass('penstock_floors') IS NOT NULL"
LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('penstock_entries'))"
TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS penstock_operators (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    "job text NOT NULL, operator text NOT NULL, run bigint NOT NULL, UNIQUE (job, operator))",
    "CREATE TABLE IF NOT EXISTS penstock_states (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    "operator bigint NOT NULL, name text NOT NULL, UNIQUE (operator, name))",
    "CREATE TABLE IF NOT EXISTS penstock_entries (state bigint, key_group integer, key bytea, version bigint, "
    "value bytea, PRIMARY KEY (state, key_group, key, version))",
    "CREATE TABLE IF NOT EXISTS penstock_floors (operator bigint, key_group integer, version bigint NOT NULL, "
    "PRIMARY KEY (operator, key_group))",
    # Tombstones are few: they are removed when no retained checkpoint has the entry.
    "CREATE INDEX IF NOT EXISTS penstock_tombstones ON penstock_entries (state, key_group, version) "
    "WHERE value IS NULL",
)

FENCE: Final = (
    "INSERT INTO penstock_operators AS mine (job, operator, run) VALUES (%s, %s, %s) "
    "ON CONFLICT (job, operator) DO UPDATE SET run = excluded.run WHERE mine.run <= excluded.run RETURNING id"
)
OPERATOR: Final = "SELECT id FROM penstock_operators WHERE job = %s AND operator = %s"
ADD_STATE: Final = "INSERT INTO penstock_states (operator, name) VALUES (%s, %s) ON CONFLICT DO NOTHING"
STATE: Final = "SELECT id FROM penstock_states WHERE operator = %s AND name = %s"

_OF_OPERATOR = "state IN (SELECT id FROM penstock_states WHERE operator = %s) AND key_group >= %s AND key_group < %s"
_REMOVE = f"DELETE FROM penstock_entries WHERE {_OF_OPERATOR}"
REMOVE_ALL: Final = f"WITH gone AS ({_REMOVE} RETURNING version) SELECT coalesce(max(version), 0) FROM gone"
"""Returns the greatest version of the removed entries."""
REMOVE_NEWER: Final = f"{_REMOVE} AND version > %s"

_FLOORS = "penstock_floors WHERE operator = %s AND key_group >= %s AND key_group < %s"
FLOOR: Final = f"SELECT coalesce(max(version), 0) FROM {_FLOORS}"
RAISE_FLOORS: Final = (
    "WITH mine AS MATERIALIZED (SELECT id FROM penstock_operators WHERE id = %s AND run = %s FOR SHARE) "
    "INSERT INTO penstock_floors SELECT mine.id, one, %s FROM mine, generate_series(%s::integer, %s::integer) AS one "
    "ON CONFLICT (operator, key_group) DO UPDATE SET version = greatest(penstock_floors.version, excluded.version)"
)
"""Executed before entries that only older versions need are removed."""

COPY_STATES: Final = (
    "INSERT INTO penstock_states (operator, name) SELECT %s, name FROM penstock_states WHERE operator = %s "
    "ON CONFLICT DO NOTHING"
)
COPY: Final = (
    "INSERT INTO penstock_entries SELECT mine, key_group, key, 0, value FROM ("
    "SELECT DISTINCT ON (old.state, old.key_group, old.key) mine.id AS mine, old.key_group, old.key, old.value "
    "FROM penstock_entries AS old JOIN penstock_states AS theirs ON theirs.id = old.state "
    "JOIN penstock_states AS mine ON mine.operator = %s AND mine.name = theirs.name "
    "WHERE theirs.operator = %s AND old.key_group >= %s AND old.key_group < %s AND old.version <= %s "
    "ORDER BY old.state, old.key_group, old.key, old.version DESC) AS newest WHERE value IS NOT NULL"
)

GET: Final = (
    "SELECT value FROM penstock_entries WHERE state = %s AND key_group = %s AND key = %b AND version <= %s "
    "ORDER BY version DESC LIMIT 1"
)
PAGE: Final = (
    "SELECT DISTINCT ON (key_group, key) key_group, key, value FROM penstock_entries "
    "WHERE state = %s AND (key_group, key) >= (%s, %b) AND key_group < %s AND version <= %s "
    "ORDER BY key_group, key, version DESC LIMIT %s"
)
PUT: Final = (
    "WITH mine AS MATERIALIZED (SELECT id FROM penstock_operators WHERE id = %s AND run = %s FOR SHARE) "
    "INSERT INTO penstock_entries SELECT new.state, new.key_group, new.key, %s, new.value FROM mine, "
    "unnest(%b::bigint[], %b::integer[], %b::bytea[], %b::bytea[]) AS new (state, key_group, key, value) "
    "ON CONFLICT (state, key_group, key, version) DO UPDATE SET value = excluded.value"
)
PRUNE: Final = (
    "DELETE FROM penstock_entries AS old "
    "USING unnest(%b::bigint[], %b::integer[], %b::bytea[]) AS new (state, key_group, key) "
    "WHERE old.state = new.state AND old.key_group = new.key_group AND old.key = new.key AND old.version < ("
    "SELECT max(kept.version) FROM penstock_entries AS kept WHERE kept.state = new.state "
    "AND kept.key_group = new.key_group AND kept.key = new.key AND kept.version <= %s)"
)
"""Removes entries that are older than the oldest needed version, for keys that are being written."""
PRUNE_REMOVED: Final = (
    "DELETE FROM penstock_entries AS old USING penstock_entries AS gone "
    "WHERE gone.value IS NULL AND gone.state = ANY(%s) AND gone.key_group >= %s AND gone.key_group < %s "
    "AND gone.version <= %s AND old.state = gone.state AND old.key_group = gone.key_group AND old.key = gone.key "
    "AND old.version <= gone.version"
)
"""Removes tombstones and older entries of removed keys, which may never be written again."""
FORGET: Final = (
    "WITH operators AS (DELETE FROM penstock_operators WHERE job = %s RETURNING id), "
    "floors AS (DELETE FROM penstock_floors AS one USING operators WHERE one.operator = operators.id), "
    "states AS (DELETE FROM penstock_states AS one USING operators WHERE operator = operators.id RETURNING one.id) "
    "DELETE FROM penstock_entries USING states WHERE state = states.id"
)
