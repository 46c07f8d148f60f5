"""Values of a DataFrame's files as values of a stream's types."""

from __future__ import annotations

import datetime

from penstock.common import Instant, Row, Types
from penstock.hosts.spark.frames.column_types import row_maker

NAIVE = datetime.datetime(1969, 12, 31, 23, 59, 59, 250_000)
BEFORE_1970 = Instant(-1, 250_000_000)


def test_values_at_any_depth() -> None:
    """A time in a list, or a struct in a map, would stay as Arrow has it: a program would meet a dict, and no Row."""
    inner = Types.ROW_NAMED(["at", "n"], [Types.INSTANT(), Types.LONG()])
    names = ["at", "list", "map", "plain"]
    types = [Types.INSTANT(), Types.LIST(inner), Types.MAP(Types.INSTANT(), inner), Types.LIST(Types.LONG())]
    make = row_maker(Types.ROW_NAMED(names, types))
    in_utc = NAIVE.replace(tzinfo=datetime.UTC)
    made = make((NAIVE, [{"at": in_utc, "n": 1}, None], [(NAIVE, {"at": None, "n": None}), (in_utc, None)], [1, None]))

    assert made.at == BEFORE_1970
    assert made.list == [Row(at=BEFORE_1970, n=1), None]
    assert made.map == {BEFORE_1970: None}
    assert made.plain == [1, None]
    assert make((None, None, None, None)).as_dict() == dict.fromkeys(names)
