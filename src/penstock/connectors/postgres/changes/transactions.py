"""From the messages of pgoutput to changes, each with the position behind it."""

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
    """Knowledge about tables in addition to the changes.

    `loader`: makes one for columns of these types. `key_columns`: by which a table was read. `is_wanted`: whether its
    changes are emitted.
    """

    loader: Callable[[Sequence[int]], Loader]
    key_columns: Callable[[str], Sequence[str]]
    is_wanted: Callable[[str], bool]


class Transactions:
    """Transactions in the order of their commits, from a position on. `lsn` and `done` say where: see ChangesSplit.

    `changes` is what has come since it was emptied, and `positions` says (lsn, done) behind each.
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
        """Take a message."""
        message = decode(data)
        if message is not None:
            self._handlers[type(message)](message)

    def idle_at(self, lsn: int) -> None:
        """The server has looked at all up to here: unless a transaction is under way, there was nothing more."""
        if self._begin is None and lsn > self.lsn:
            self.lsn, self.done = lsn, 0

    def take(self) -> tuple[list[Change], list[tuple[int, int]]]:
        """Return the changes that arrived, and the positions. They are dropped here."""
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
        former = self._relations.get(relation.oid)
        if former is not None and former.is_wanted and not captured.is_wanted:
            raise SourceError(
                f"{former.table} is {relation.full_name} from here on, and no table of that name is to be read: its "
                "changes would be left out. Start the program with the new name in `tables`, from a checkpoint"
            )
        self._relations[relation.oid] = captured

    def _row_changed(self, change: RowChange) -> None:
        relation, begin = self._relations[change.oid], self._of()
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
            self._add(Change(ChangeKind.UPDATE, relation.table, before, after, begin.lsn, begin.time_ms, unsent))

    def _was_seen(self, relation: CapturedRelation, begin: Begin, change: RowChange) -> bool:
        """Whether the change was read with the rows of the table. Emits the half of an update of which that is not so.

        If its key was changed, a row may have left a range that has seen it for one that has not.
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
                f"restarted before the rest was: its columns {', '.join(unsent)} were read nowhere, since PostgreSQL "
                "sends large values only when they change. Start the job anew, without its state"
            )
        self._add(Change(ChangeKind.INSERT, relation.table, None, after, begin.lsn, begin.time_ms, unsent))

    def _deleted(self, relation: CapturedRelation, begin: Begin, old: Values, is_key: bool) -> None:
        before = relation.before(old, is_key)
        self._add(Change(ChangeKind.DELETE, relation.table, before, None, begin.lsn, begin.time_ms))

    def _truncated(self, truncate: Truncate) -> None:
        begin = self._of()
        for oid in truncate.oids:
            relation = self._relations[oid]
            if not self._is_new() or not relation.is_wanted:
                continue
            if begin.lsn >= self._seen_lsn or not self._seen.has_truncate(relation.table, begin.xid):
                self._add(Change(ChangeKind.TRUNCATE, relation.table, None, None, begin.lsn, begin.time_ms))

    def _add(self, change: Change) -> None:
        self.changes.append(change)
        self.positions.append((self.lsn, self.done))

    def _of(self) -> Begin:
        assert self._begin is not None, "a change outside of a transaction"
        return self._begin

    def _is_new(self) -> bool:
        """Whether the next change of the transaction was not emitted before a restart."""
        if self._to_skip:
            self._to_skip -= 1
            return False
        self.done += 1
        return True

    def _has(self, relation: CapturedRelation, begin: Begin, values: Values, others: Values | None = None) -> bool:
        def key() -> Key:
            return relation.key(self._tables.key_columns(relation.table), values, others)

        return self._seen.has(relation.table, begin.xid, key)
