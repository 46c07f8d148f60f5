"""Changes of rows of a table: the elements of a PostgresChangeSource."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from penstock.common.types import Row, RowKind


class ChangeKind(enum.Enum):
    """The kind of a change. Flink's RowKind has no TRUNCATE, and splits an update in two: see `Change.rows`."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"


class Change(msgspec.Struct, frozen=True):
    """A change of one row, in a committed transaction; or a row that existed when the job began.

    `table`: with its schema and a dot. `before`: the row that was updated or deleted, as far as PostgreSQL sends it:
    the columns of its replica identity, all with REPLICA IDENTITY FULL. `after`: the row that was inserted, or the
    updated row. `lsn`: of the commit, equal for all changes of a transaction, and never decreasing. `time_ms`: time of
    the commit; for an existing row, when the job began.

    `unchanged`: large columns (TOAST) that an update did not change, and that PostgreSQL therefore does not send. They
    are not in `after`. A TRUNCATE, which removes all rows, has neither `before` nor `after`. `is_snapshot`: the row
    existed when the job began.
    """

    kind: ChangeKind
    table: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    lsn: int
    time_ms: int
    unchanged: tuple[str, ...] = ()
    is_snapshot: bool = False

    def rows(self) -> list[Row]:
        """Return the change as rows with names and Flink's kinds: an update is -U and +U.

        Raise ValueError for a TRUNCATE.

        -U and -D have the columns of `before`.
        """
        if self.kind is ChangeKind.TRUNCATE:
            raise ValueError(f"{self.table} was truncated: Flink's rows cannot represent this")
        old, new = _KINDS[self.kind]
        return [
            Row.of_kind(kind, **values)
            for kind, values in ((old, self.before), (new, self.after))
            if kind is not None and values is not None
        ]


_KINDS: dict[ChangeKind, tuple[RowKind | None, RowKind | None]] = {
    ChangeKind.INSERT: (None, RowKind.INSERT),
    ChangeKind.UPDATE: (RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER),
    ChangeKind.DELETE: (RowKind.DELETE, None),
}
