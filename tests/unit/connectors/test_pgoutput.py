"""The messages of PostgreSQL's logical decoding, as bytes, and what they say."""

from __future__ import annotations

import struct

import pytest

from penstock.common.errors import SourceError
from penstock.connectors.postgres.changes.pgoutput import (
    UNSENT,
    Begin,
    Column,
    Commit,
    Relation,
    RowChange,
    Truncate,
    decode,
)

TWO_VALUES = b"\0\2" + b"t\0\0\0\1" + b"7" + b"n"
"""A row: 7, NULL."""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        # 2000-01-01 and a second.
        (struct.pack("!cQQI", b"B", 2**40, 1_000_999, 7), Begin(2**40, 946_684_801_000, 7)),
        (struct.pack("!cBQQQ", b"C", 0, 5, 2**33, 0), Commit(2**33)),
        (
            b"R\0\0\0\5public\0t\xc3\xa9\0d\0\2"
            + b"\1id\0\0\0\0\x14\xff\xff\xff\xff"
            + b"\0n\0\0\0\0\x19\xff\xff\xff\xff",
            Relation(5, "public", "té", (Column("id", 20, True), Column("n", 25, False))),
        ),
        (b"R\0\0\0\5\0t\0d\0\0", Relation(5, "pg_catalog", "t", ())),
        (b"I\0\0\0\5N" + TWO_VALUES, RowChange(5, None, [b"7", None], is_insert=True)),
        (b"U\0\0\0\5N\0\2u" + b"t\0\0\0\0", RowChange(5, None, [UNSENT, b""])),
        (b"U\0\0\0\5K" + TWO_VALUES + b"N\0\1n", RowChange(5, [b"7", None], [None], is_key=True)),
        (b"U\0\0\0\5O" + TWO_VALUES + b"N\0\1n", RowChange(5, [b"7", None], [None])),
        (b"D\0\0\0\5K" + TWO_VALUES, RowChange(5, [b"7", None], None, is_key=True)),
        (b"D\0\0\0\5O" + TWO_VALUES, RowChange(5, [b"7", None], None)),
        (b"T\0\0\0\2\1\0\0\0\5\0\0\0\6", Truncate((5, 6))),
        (b"Y\0\0\0\5public\0color\0", None),
        (b"O\0\0\0\0\0\0\0\5node\0", None),
    ],
)
def test_what_messages_say(data: bytes, message: object) -> None:
    """Rows would have other values than the table, or be of another one."""
    assert decode(data) == message


def test_what_was_not_asked_for_is_an_error() -> None:
    """Values of another protocol would silently be read as wrong texts."""
    with pytest.raises(SourceError, match="expected a message of pgoutput's protocol"):
        decode(b"S\0\0\0\1")
    with pytest.raises(SourceError, match="a value of the unknown kind 0x62"):
        decode(b"I\0\0\0\5N\0\1b\0\0\0\0")
