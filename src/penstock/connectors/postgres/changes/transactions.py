"""Convert messages of pgoutput to changes, each with the position after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock.common.errors import SourceError
from penstock.connectors.postgres.changes.captured_relation import CapturedRelation, Loader
from penstock.connectors.postgres.changes.change import Change, ChangeKind
from penstock.connectors.postgres.changes.pgoutput import (
    Begin,
    Commit,
    Message,
    Relation,
    RowChange,
    Truncate,
    Values,
    decode,
)
from penstock.connectors.postgres.changes.seen_rows import SeenRows
from penstock.connectors.postgres.changes.split import ChangesSplit, Key


class Tables(msgspec.Struct, frozen=True):
    """Properties of tables that the messages do not contain.

    `loader`: creates a converter for columns of these types. `key_columns`: by which a table was read. `is_wanted`:
    whether its changes are emitted.
    """

    loader: Callable[[Sequence[int]], Loader]
    key_columns: Callable[[str], Sequence[str]]
    is_wanted: Callable[[str], bool]


class Transactions:
    """Transactions in the order of their commits, from a position on. For `lsn` and `done` see ChangesSplit.

    `changes` contains the changes since the last `take`, and `positions` the (lsn, done) after each.
    """

    def __init__(self, start: ChangesSplit, seen: SeenRows, tables: Tables) -> None:
        self.lsn = start.lsn
        self.done = start.done
        self.changes: list[Change] = []
        self.positions: list[tuple[int, int]] = []
        self._seen = seen
        self._seen_lsn = start.seen_lsn if start.read else 0
        self._tables = tables
        self._relations: dict[int, CapturedRelation] = {}
        self._begin: Begin | None = None
        self._to_skip = 0
        self._handlers: dict[type[Message], Callable[[Any], None]] = {
            Begin: self._begun,
            Commit: self._committed,
            Relation: self._described,
            RowChange: self._row_changed,
            Truncate: self._truncated,
        }

    def handle(self, data: bytes) -> None:
        """Handle a message."""
        message = decode(data)
        if message is not None:
            self._handlers[type(message)](message)

    def idle_at(self, lsn: int) -> None:
        """Advance to a position up to which the server has no further changes, unless a transaction is open."""
        if self._begin is None and lsn > self.lsn:
            self.lsn, self.done = lsn, 0

    def take(self) -> tuple[list[Change], list[tuple[int, int]]]:
        """Return the received changes and their positions, and clear them."""
        taken = self.changes, self.positions
        self.changes, self.positions = [], []
        return taken

    def _begun(self, begin: Begin) -> None:
        self._begin = begin
        if begin.lsn != self.lsn:
            self.lsn, self.done = begin.lsn, 0
        self._to_skip = self.done

    def _committed(self, commit: Commit) -> None:
        self._begin = None
        self.lsn, self.done = commit.end_lsn, 0

    def _described(self, relation: Relation) -> None:
        load = self._tables.loader([column.type_oid for column in relation.columns])
        captured = CapturedRelation(relation, load, self._tables.is_wanted(relation.full_name))
        known = self._relations.get(relation.oid)
        if known is not None and known.is_wanted and not captured.is_wanted:
            raise SourceError(
                f"{known.table} was renamed to {relation.full_name}, and `tables` does not contain that name: its "
                "changes would be skipped. Add the new name to `tables`, and start the program from a checkpoint"
            )
        self._relations[relation.oid] = captured

    def _row_changed(self, change: RowChange) -> None:
        relation, begin = self._relations[change.oid], self._open_transaction()
        if not self._is_new() or not relation.is_wanted:
            return
        old, new = change.old, change.new
        if begin.lsn < self._seen_lsn and self._was_seen(relation, begin, change):
            return
        if new is None:
            self._deleted(relation, begin, old or [], change.is_key)
        elif change.is_insert:
            self._inserted(relation, begin, new, None)
        else:
            after, unsent = relation.after(new, None if change.is_key else old)
            before = relation.identity(after) if old is None else relation.before(old, change.is_key)
            self._add(
                Change(
                    kind=ChangeKind.UPDATE,
                    table=relation.table,
                    before=before,
                    after=after,
                    lsn=begin.lsn,
                    time_ms=begin.time_ms,
                    unchanged=unsent,
                )
            )

    def _was_seen(self, relation: CapturedRelation, begin: Begin, change: RowChange) -> bool:
        """Return whether the change was read with the rows. Emit the half of an update that was not.

        If an update changed the key, it may have moved the row from a range whose snapshot includes it to one whose
        snapshot does not.
        """
        old, new = change.old, change.new
        if new is None:
            return self._has(relation, begin, old or [])
        new_seen = self._has(relation, begin, new, old)
        if change.is_insert or old is None:
            return new_seen
        old_seen = self._has(relation, begin, old)
        if old_seen and not new_seen:
            self._inserted(relation, begin, new, None if change.is_key else old)
        elif new_seen and not old_seen:
            self._deleted(relation, begin, old, change.is_key)
        return old_seen or new_seen

    def _inserted(self, relation: CapturedRelation, begin: Begin, new: Values, old: Values | None) -> None:
        after, unsent = relation.after(new, old)
        if unsent:
            raise SourceError(
                f"the key of a row of {relation.table} was changed after a part of the table was read, and the job was "
                f"restarted before the rest was: its columns {', '.join(unsent)} were not read, because PostgreSQL "
                "sends large values only when they change. Start the job again without its state"
            )
        self._add(
            Change(
                kind=ChangeKind.INSERT,
                table=relation.table,
                before=None,
                after=after,
                lsn=begin.lsn,
                time_ms=begin.time_ms,
                unchanged=unsent,
            )
        )

    def _deleted(self, relation: CapturedRelation, begin: Begin, old: Values, is_key: bool) -> None:
        before = relation.before(old, is_key)
        self._add(
            Change(
                kind=ChangeKind.DELETE,
                table=relation.table,
                before=before,
                after=None,
                lsn=begin.lsn,
                time_ms=begin.time_ms,
            )
        )

    def _truncated(self, truncate: Truncate) -> None:
        begin = self._open_transaction()
        for oid in truncate.oids:
            relation = self._relations[oid]
            if not self._is_new() or not relation.is_wanted:
                continue
            if begin.lsn >= self._seen_lsn or not self._seen.has_truncate(relation.table, begin.xid):
                self._add(
                    Change(
                        kind=ChangeKind.TRUNCATE,
                        table=relation.table,
                        before=None,
                        after=None,
                        lsn=begin.lsn,
                        time_ms=begin.time_ms,
                    )
                )

    def _add(self, change: Change) -> None:
        self.changes.append(change)
        self.positions.append((self.lsn, self.done))

    def _open_transaction(self) -> Begin:
        assert self._begin is not None, "a change outside of a transaction"
        return self._begin

    def _is_new(self) -> bool:
        """Return whether the next change of the transaction was not emitted before a restart."""
        if self._to_skip:
            self._to_skip -= 1
            return False
        self.done += 1
        return True

    def _has(self, relation: CapturedRelation, begin: Begin, values: Values, others: Values | None = None) -> bool:
        def key() -> Key:
            return relation.key(self._tables.key_columns(relation.table), values, others)

        return self._seen.has(relation.table, begin.xid, key)
