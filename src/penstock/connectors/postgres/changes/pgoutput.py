"""Parse messages of pgoutput, PostgreSQL's output plugin for logical decoding.

Version 1 of its protocol: a transaction is sent after its commit, as a whole, in the order of commits. Values are
texts, as the output function of their type writes them. Source: PostgreSQL docs, "Logical Replication Message Formats".
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from struct import Struct
from typing import Literal, TypeAlias

import msgspec

from penstock.common.errors import SourceError


class Unsent(enum.Enum):
    """Represents an unchanged value that is stored outside of the row (TOAST)."""

    UNSENT = "unsent"


UNSENT: Literal[Unsent.UNSENT] = Unsent.UNSENT
Values: TypeAlias = "list[bytes | Unsent | None]"
"""The values of a row, in the order of the relation's columns. None: NULL, or not sent."""


class Begin(msgspec.Struct, frozen=True, gc=False):
    """A transaction follows. `lsn`: position of its commit. `xid`: its number, without the epoch."""

    lsn: int
    time_ms: int
    xid: int


class Commit(msgspec.Struct, frozen=True, gc=False):
    """The transaction has ended; `end_lsn` is the position after its commit."""

    end_lsn: int


class Column(msgspec.Struct, frozen=True, gc=False):
    """A column. `is_key`: it is part of the replica identity."""

    name: str
    type_oid: int
    is_key: bool


class Relation(msgspec.Struct, frozen=True):
    """The present definition of a table. Sent before its first change, and again after a change of the definition."""

    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]

    @property
    def full_name(self) -> str:
        """Return the name with the schema and a dot."""
        return f"{self.schema}.{self.name}"


class RowChange(msgspec.Struct, frozen=True):
    """A change of a row of the relation `oid`. `old`: all columns, or with `is_key` those of the replica identity.

    An insert has no `old`, and a delete no `new`. An update has an `old` if the identity is FULL or was changed.
    """

    oid: int
    old: Values | None
    new: Values | None
    is_insert: bool = False
    is_key: bool = False


class Truncate(msgspec.Struct, frozen=True, gc=False):
    """A TRUNCATE of these relations."""

    oids: tuple[int, ...]


Message = Begin | Commit | Relation | RowChange | Truncate | None
"""A message; None if it has no rows."""

_EPOCH_US = 946_684_800_000_000
"""PostgreSQL counts from 2000 on."""
_BEGIN = Struct("!QQI")
_COMMIT = Struct("!BQQ")
_RELATION = Struct("!BH")
_COLUMN = Struct("!Ii")
_TRUNCATE = Struct("!IB")
_OID = Struct("!I")
_COUNT = Struct("!H")
_NULL, _TEXT, _UNSENT = b"ntu"
_INSERT, _KEY = b"IK"


def milliseconds(microseconds: int) -> int:
    """Return a time of PostgreSQL (microseconds since 2000) in milliseconds since 1970."""
    return (microseconds + _EPOCH_US) // 1000


def decode(data: bytes) -> Message:
    """Parse a message. Raise SourceError for a message of another protocol."""
    decoder = _DECODERS.get(data[:1])
    if decoder is None:
        raise SourceError(f"expected a message of pgoutput's protocol, version 1, from PostgreSQL, got {data[:20]!r}")
    return decoder(data)


def _begin(data: bytes) -> Begin:
    lsn, time_us, xid = _BEGIN.unpack_from(data, 1)
    return Begin(lsn, milliseconds(time_us), xid)


def _commit(data: bytes) -> Commit:
    _, _, end_lsn = _COMMIT.unpack_from(data, 1)
    return Commit(end_lsn)


def _relation(data: bytes) -> Relation:
    (oid,) = _OID.unpack_from(data, 1)
    schema, at = _text(data, 5)
    name, at = _text(data, at)
    _, count = _RELATION.unpack_from(data, at)
    at += _RELATION.size
    columns = []
    for _ in range(count):
        flags = data[at]
        column, at = _text(data, at + 1)
        type_oid, _ = _COLUMN.unpack_from(data, at)
        at += _COLUMN.size
        columns.append(Column(column, type_oid, bool(flags & 1)))
    # An empty name represents the schema of the catalog.
    return Relation(oid, schema or "pg_catalog", name, tuple(columns))


def _row_change(data: bytes) -> RowChange:
    (oid,) = _OID.unpack_from(data, 1)
    # One row, or two: K (key) or O (all) before, N after.
    first, at = _values(data, 6)
    if data[5] == b"N"[0]:
        return RowChange(oid, None, first, is_insert=data[0] == _INSERT)
    second = _values(data, at + 1)[0] if at < len(data) else None
    return RowChange(oid, first, second, is_key=data[5] == _KEY)


def _values(data: bytes, at: int) -> tuple[Values, int]:
    (count,) = _COUNT.unpack_from(data, at)
    at += 2
    values: Values = []
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == _TEXT:
            start = at + 4
            at = start + int.from_bytes(data[at:start])
            values.append(data[start:at])
        elif kind == _NULL:
            values.append(None)
        elif kind == _UNSENT:
            values.append(UNSENT)
        else:
            raise SourceError(f"PostgreSQL sent a value of the unknown kind {kind:#x}")
    return values, at


def _truncate(data: bytes) -> Truncate:
    count, _ = _TRUNCATE.unpack_from(data, 1)
    return Truncate(tuple(_OID.unpack_from(data, 6 + 4 * index)[0] for index in range(count)))


def _nothing(data: bytes) -> None:
    """Ignore a message about a type, the origin of a transaction, or a message of an application."""


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


_DECODERS: dict[bytes, Callable[[bytes], Message]] = {
    b"B": _begin,
    b"C": _commit,
    b"R": _relation,
    b"I": _row_change,
    b"U": _row_change,
    b"D": _row_change,
    b"T": _truncate,
    b"Y": _nothing,
    b"O": _nothing,
    b"M": _nothing,
}
