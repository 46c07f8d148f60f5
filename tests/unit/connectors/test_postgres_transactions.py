"""From the messages of PostgreSQL's logical decoding to changes: positions, and what was read with the rows before."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.common.errors import SourceError
from penstock.connectors.postgres.changes.seen_rows import SeenRows
from penstock.connectors.postgres.changes.split import ChangesSplit, Key, PostgresSnapshot, RowsRead
from penstock.connectors.postgres.changes.transactions import Tables, Transactions
from penstock.datastream.connectors.postgres import Change, ChangeKind

OID = struct.pack("!I", 5)
RELATION = (
    b"R" + OID + b"public\0t\0d\0\2"
    + b"\1id\0" + struct.pack("!Ii", 25, -1) + b"\0name\0" + struct.pack("!Ii", 25, -1)
)  # fmt: skip


def begin(lsn: int, xid: int = 10) -> bytes:
    return struct.pack("!cQQI", b"B", lsn, 0, xid)


def commit(lsn: int) -> bytes:
    return struct.pack("!cBQQQ", b"C", 0, lsn, lsn + 1, 0)


def row(*values: str | None) -> bytes:
    parts = [b"n" if one is None else b"t" + struct.pack("!I", len(one)) + one.encode() for one in values]
    return struct.pack("!H", len(values)) + b"".join(parts)


def insert(key: str, name: str = "a") -> bytes:
    return b"I" + OID + b"N" + row(key, name)


def update(key: str, name: str, old_key: str | None = None) -> bytes:
    old = b"" if old_key is None else b"K" + row(old_key, None)
    return b"U" + OID + old + b"N" + row(key, name)


def delete(key: str) -> bytes:
    return b"D" + OID + b"K" + row(key, None)


TRUNCATE = b"T\0\0\0\1\0" + OID


def loader(type_oids: Sequence[int]) -> Any:
    return lambda values: [None if value is None else value.decode() for value in values]


def transactions(start: ChangesSplit, read: Sequence[RowsRead] = (), wanted: bool = True) -> Transactions:
    def precedes(table: str, key: Key, bound: Key) -> bool:
        return key <= bound

    tables = Tables(loader, lambda table: ["id"], lambda table: wanted)
    return Transactions(start, SeenRows(read, precedes), tables)


def changes(machine: Transactions, *messages: bytes) -> list[tuple[str, Any, Any]]:
    for message in messages:
        machine.handle(message)
    return [(change.kind.value, change.before, change.after) for change in machine.take()[0]]


def test_positions_lie_behind_each_change() -> None:
    """A restart between any two changes would lose some, or emit some again."""
    messages = [
        begin(100),
        RELATION,
        insert("1"),
        insert("2"),
        TRUNCATE,
        commit(100),
        begin(200),
        insert("3"),
        commit(200),
    ]
    machine = transactions(ChangesSplit("j", 0, 90))
    whole = changes(machine, *messages)
    assert [kind for kind, _, _ in whole] == ["insert", "insert", "truncate", "insert"]
    assert (machine.lsn, machine.done) == (201, 0)

    for cut, (lsn, done) in enumerate([(90, 0), (100, 1), (100, 2), (100, 3), (200, 1)]):
        again = transactions(ChangesSplit("j", 0, lsn, done))
        came = [message for message in messages if lsn <= 100 or message not in messages[2:6]]
        if lsn > 100:
            came.remove(begin(100))
        for message in came:
            again.handle(message)
        taken, positions = again.take()
        assert [(one.kind.value, one.before, one.after) for one in taken] == whole[cut:]
        assert positions == [(100, 1), (100, 2), (100, 3), (200, 1)][cut:]


def test_tables_that_are_not_wanted_count() -> None:
    """With another choice of tables a restart within a transaction would continue at another change."""
    machine = transactions(ChangesSplit("j", 0, 90), wanted=False)
    assert changes(machine, begin(100), RELATION, insert("1"), insert("2")) == []
    assert (machine.lsn, machine.done) == (100, 2)


def test_the_position_moves_between_transactions_only() -> None:
    """The rest of a transaction would be skipped."""
    machine = transactions(ChangesSplit("j", 0, 90))
    machine.idle_at(95)
    assert machine.lsn == 95
    changes(machine, begin(100), RELATION, insert("1"))
    machine.idle_at(300)
    assert (machine.lsn, machine.done) == (100, 1)
    changes(machine, commit(100))
    machine.idle_at(50)
    assert machine.lsn == 101


SEEN_BY_BOTH, SEEN_BY_SECOND, SEEN_BY_NONE = 10, 15, 30
READ = (RowsRead("public.t", ("m",), "12:14:"), RowsRead("public.t", None, "12:20:13"))
"""Up to m in a snapshot before transaction 15, the rest behind it."""


@pytest.mark.parametrize(
    ("xid", "message", "expected"),
    [
        (SEEN_BY_BOTH, insert("a"), []),
        (SEEN_BY_NONE, insert("a"), [("insert", None, {"id": "a", "name": "a"})]),
        (SEEN_BY_SECOND, insert("m"), [("insert", None, {"id": "m", "name": "a"})]),
        (SEEN_BY_SECOND, insert("n"), []),
        (SEEN_BY_SECOND, update("a", "b"), [("update", {"id": "a"}, {"id": "a", "name": "b"})]),
        (SEEN_BY_SECOND, update("x", "b"), []),
        (SEEN_BY_SECOND, update("b", "c", "a"), [("update", {"id": "a"}, {"id": "b", "name": "c"})]),
        # Out of the part that has not seen it, and into it.
        (SEEN_BY_SECOND, update("x", "b", "a"), [("delete", {"id": "a"}, None)]),
        (SEEN_BY_SECOND, update("a", "b", "x"), [("insert", None, {"id": "a", "name": "b"})]),
        (SEEN_BY_SECOND, update("y", "b", "x"), []),
        (SEEN_BY_SECOND, delete("a"), [("delete", {"id": "a"}, None)]),
        (SEEN_BY_SECOND, delete("x"), []),
        (SEEN_BY_BOTH, TRUNCATE, []),
        (SEEN_BY_NONE, TRUNCATE, [("truncate", None, None)]),
    ],
)
def test_what_was_read_with_the_rows(xid: int, message: bytes, expected: list[Any]) -> None:
    """A change made while the table was read would come twice, or never."""
    start = ChangesSplit("j", 0, 90, read=READ, seen_lsn=150)
    assert changes(transactions(start, READ), begin(100, xid), RELATION, message) == expected
    # Behind the end of the log at the last snapshot nothing was seen.
    later = transactions(start, READ)
    assert len(changes(later, begin(150, xid), RELATION, message)) == 1


def test_a_table_that_is_renamed_is_an_error() -> None:
    """Its changes would be left out from then on, and the slot be moved past them."""
    tables = Tables(loader, lambda table: ["id"], lambda table: table == "public.t")
    machine = Transactions(ChangesSplit("j", 0, 90), SeenRows([], lambda table, key, bound: False), tables)
    assert changes(machine, begin(100), RELATION, insert("1"), commit(100)) == [
        ("insert", None, {"id": "1", "name": "a"})
    ]
    machine.handle(RELATION)
    machine.handle(begin(200))
    with pytest.raises(SourceError, match=r"public\.t was renamed to public\.x.*`tables`"):
        machine.handle(RELATION.replace(b"t\0d", b"x\0d"))


def test_a_truncate_between_two_parts_is_an_error() -> None:
    """The rows of the first part would silently stay."""
    start = ChangesSplit("j", 0, 90, read=READ, seen_lsn=150)
    with pytest.raises(SourceError, match=r"public\.t was truncated after a part of it was read"):
        changes(transactions(start, READ), begin(100, SEEN_BY_SECOND), RELATION, TRUNCATE)


def test_a_row_that_came_by_neither_part_has_all_its_columns() -> None:
    """Its key was changed between the two snapshots, out of the one range into the other: who builds the table has no
    earlier value of a large column that is not sent."""
    start = ChangesSplit("j", 0, 90, read=READ, seen_lsn=150)
    unsent = b"U" + OID + b"K" + row("x", None) + b"N" + struct.pack("!H", 2) + row("a")[2:] + b"u"
    with pytest.raises(SourceError, match=r"public\.t was changed .* its columns name were not read"):
        changes(transactions(start, READ), begin(100, SEEN_BY_SECOND), RELATION, unsent)


def test_which_transactions_a_snapshot_sees() -> None:
    """After four billion transactions, when numbers start again, changes would be lost or doubled."""
    epoch = 2**32
    snapshot = PostgresSnapshot.of(f"{epoch - 5}:{epoch + 5}:{epoch - 2},{epoch + 3}")
    seen = {
        xid: snapshot.has(xid % epoch) for xid in (epoch - 6, epoch - 5, epoch - 2, epoch + 1, epoch + 3, epoch + 5)
    }
    assert list(seen.values()) == [True, True, False, True, False, False]
    assert PostgresSnapshot.of("7:7:").running == frozenset()


def test_parts_of_a_table_in_the_state() -> None:
    """After two restarts while a table was read, a part would be taken for another snapshot's."""
    split = ChangesSplit("j", 0, 90, tables=("t", "u"))
    assert split.resumed_at is None
    nothing = split.began("1:1:", 100)
    assert nothing.resumed_at is None and nothing.began("2:2:", 110).read == (RowsRead("t", (), "2:2:"),)
    some = nothing.began("2:2:", 110).reached(("k",))
    assert some.resumed_at == ("k",)
    again = some.began("3:3:", 120).began("4:4:", 130)
    assert again.read == (RowsRead("t", ("k",), "2:2:"), RowsRead("t", ("k",), "4:4:"))
    whole = again.reached(("l",)).reached(None)
    assert whole.tables == ("u",) and whole.resumed_at is None and whole.seen_lsn == 130
    done = whole.began("5:5:", 140).reached(None)
    assert len(done.at(139, 2).read) == 3
    assert done.at(140, 0).read == ()


def test_rows_with_flinks_kinds() -> None:
    """Programs for changelogs of Flink could not read the changes."""
    change = Change(ChangeKind.UPDATE, "public.t", {"id": 1}, {"id": 1, "n": 2}, 9, 0)
    assert [(str(one.get_row_kind()), one.as_dict()) for one in change.rows()] == [
        ("-U", {"id": 1}),
        ("+U", {"id": 1, "n": 2}),
    ]
    gone = Change(ChangeKind.DELETE, "public.t", {"id": 1}, None, 9, 0)
    assert [str(one.get_row_kind()) for one in gone.rows()] == ["-D"]
    with pytest.raises(ValueError, match="was truncated"):
        Change(ChangeKind.TRUNCATE, "public.t", None, None, 9, 0).rows()
