"""Top N and de-duplication: each row gives the changes that Flink gives, in the order of the key's rows."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from tests.table.listed_tables import Change, Tables, inserts, table_of
from tests.table.table_tests import SMALL, at, crashing, need_planner

from penstock.hosts.simulator import Circumstances

ROW = "k STRING, n INT, f DOUBLE, s STRING, id INT"
ORDERS = {
    "n": lambda row: (row[1] is not None, row[1] or 0),
    "n DESC": lambda row: (row[1] is None, -(row[1] or 0)),
    "n DESC, id": lambda row: (row[1] is None, -(row[1] or 0), row[4]),
    "f DESC NULLS LAST, s": lambda row: (row[2] is None, -(row[2] or 0.0), row[3] is not None, row[3] or ""),
    "s DESC, n": lambda row: (row[3] is None, [-ord(one) for one in row[3] or ""], row[1] is not None, row[1] or 0),
}
"""ORDER BY -> a key of Python. NULL is the lowest value, unless the order says otherwise."""


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    need_planner()


def rows_of(random: Random, count: int) -> list[tuple[Any, ...]]:
    """Return rows, many of them equal in the order."""
    return [
        (
            random.choice(["a", "b", None]),
            random.choice([None, *range(4)]),
            random.choice([None, 0.5, -0.0, 0.0, -2.0]),
            random.choice([None, "x", "y", "z"]),
            number,
        )
        for number in range(count)
    ]


def top_changes(rows: Sequence[tuple[Any, ...]], order: Any, last: int, *, numbered: bool) -> dict[Any, list[Change]]:
    """Return the changes of each key. Source: Flink's AppendOnlyTopNFunction and FastTop1Function."""
    tops: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    changes: dict[Any, list[Change]] = defaultdict(list)
    for row in rows:
        before, found = tops[row[0]], changes[row[0]]
        place = bisect_right(before, order(row), key=order)
        if place >= last:
            continue
        after = [*before[:place], row, *before[place:]]
        if numbered:
            for rank in range(place, min(len(before), last)):
                found += [("-U", (*before[rank], rank + 1)), ("+U", (*after[rank], rank + 1))]
            if len(before) < last:
                found.append(("+I", (*after[-1], len(after))))
        elif last == 1 and before:
            found += [("-U", before[0]), ("+U", row)]
        else:
            found += [*([("-D", before[-1])] if len(before) == last else []), ("+I", row)]
        tops[row[0]] = after[:last]
    return {key: of for key, of in changes.items() if of}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("last", "numbered"), [(1, False), (2, True), (3, False)])
def test_each_row_gives_the_changes_of_the_first_rows(order: str, last: int, numbered: bool) -> None:
    """NULL, zeros of both signs, texts and equal rows have their places; a row without a place changes nothing."""
    rows = rows_of(Random(last), 70)
    tables = Tables(circumstances=SMALL)
    tables.create("t", ROW, inserts(rows))
    number, column = (", r", ", r BIGINT") if numbered else ("", "")
    query = f"""SELECT k, n, f, s, id{number} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS r
        FROM t) WHERE r <= {last}"""
    found: dict[Any, list[Change]] = defaultdict(list)
    for change in tables.insert("o", f"{ROW}{column}", query):
        found[change[1][0]].append(change)
    expected = top_changes(rows, ORDERS[order], last, numbered=numbered)
    if order != "n DESC" and last == 1:
        # Flink 2.3 plans a first row as one that is never replaced, unless the order is one descending column.
        expected = {key: [one for one in of if one[0] != "-U"] for key, of in expected.items()}
    assert found == expected


@pytest.mark.parametrize("limit", ["LIMIT 1", "LIMIT 3", "LIMIT 1 OFFSET 2"])
def test_a_limit_without_an_order_gives_the_first_rows_and_no_others(limit: str) -> None:
    """Each row behind the first one would replace it: LIMIT 1 would give all rows."""
    tables = Tables(parallelism=1, circumstances=SMALL)
    tables.create("t", "n INT", inserts([(number,) for number in range(9)]))
    first, last = {"LIMIT 1": (0, 1), "LIMIT 3": (0, 3)}.get(limit, (2, 3))
    changes = tables.insert("o", "n INT", f"SELECT n FROM t {limit}")
    assert changes == inserts([(number,) for number in range(first, last)])


@pytest.mark.parametrize("first", [2, 3])
def test_ranks_that_do_not_begin_with_the_first(first: int) -> None:
    """Rows between two ranks are those that sorting gives, and no other ever was announced at the end."""
    rows = rows_of(Random(first), 60)
    tables = Tables(circumstances=SMALL)
    tables.create("t", ROW, inserts(rows))
    query = f"""SELECT k, n, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n, id) AS r FROM t)
        WHERE r BETWEEN {first} AND 4"""
    found = table_of(tables.insert("o", "k STRING, n INT, id INT", query))
    expected = []
    for key in ("a", "b", None):
        of_key = sorted(
            (row for row in rows if row[0] == key), key=lambda row: (row[1] is not None, row[1] or 0, row[4])
        )
        expected += [(row[0], row[1], row[4]) for row in of_key[first - 1 : 4]]
    assert sorted(found.elements(), key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(("last", "sum_then"), [(1, 10), (2, 15)])
def test_a_first_row_by_an_aggregate_stays_as_it_was(last: int, sum_then: int) -> None:
    """The page says so: Flink's FastTop1Function takes a row only if it is before the one that it has."""
    tables = Tables(parallelism=1)
    tables.create("t", "k INT, n INT, x INT, y INT", inserts([(1, 1, 1, 10), (1, 1, None, 5), (1, 2, 1, 1)]))
    query = f"""SELECT k, n, c, s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY c DESC) AS r
        FROM (SELECT k, n, COUNT(x) AS c, SUM(y) AS s FROM t GROUP BY k, n)) WHERE r <= {last}"""
    found = table_of(tables.insert("o", "k INT, n INT, c BIGINT, s INT", query))
    assert {row[3] for row in found if row[1] == 1} == {sum_then}


TIMED = "k STRING, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"


@pytest.mark.parametrize("order", ["ASC", "DESC"])
@pytest.mark.parametrize("sensitive", ["true", "false"])
def test_the_first_or_last_row_by_event_time(order: str, sensitive: str) -> None:
    """The first row by time is never replaced once it is given; the last one is replaced by any that is not earlier."""
    random = Random(4)
    rows = [(random.choice("abc"), number, at(number + random.randrange(-2, 3))) for number in range(50)]
    tables = Tables({"table.exec.deduplicate.insert-update-after-sensitive-enabled": sensitive}, circumstances=SMALL)
    tables.create("t", TIMED, inserts(rows))
    query = f"""SELECT k, n, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts {order}) AS r FROM t)
        WHERE r = 1"""
    changes = tables.insert("o", "k STRING, n INT, ts TIMESTAMP(3)", query)
    best: dict[str, tuple[Any, ...]] = {}
    for row in rows:
        kept = best.get(row[0])
        if kept is None or (row[2] < kept[2] if order == "ASC" else row[2] >= kept[2]):
            best[row[0]] = row
    assert sorted(table_of(changes).elements()) == sorted(best.values())
    if order == "ASC":
        assert {kind for kind, _ in changes} == {"+I"}


QUERIES = {
    "top 1": "SELECT k, n, f, s, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC, id) AS r "
    "FROM t) WHERE r = 1",
    "top 3": "SELECT k, n, f, s, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY s, id) AS r FROM t) "
    "WHERE r <= 3",
    "last row": "SELECT k, n, f, s, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p DESC) AS r FROM t) "
    "WHERE r = 1",
}


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("circumstances", [*crashing()])
def test_first_rows_continue_after_a_failure(query: str, circumstances: Circumstances) -> None:
    """Rows that are kept as Arrow are the same after a restore, on the heap and behind a cache."""
    rows = rows_of(Random(9), 120)
    found = []
    for one in (SMALL, circumstances):
        tables = Tables(circumstances=one)
        tables.create("t", f"{ROW}, p AS PROCTIME()", inserts(rows))
        found.append(table_of(tables.insert("o", ROW, QUERIES[query])))
        assert bool(tables.executor.restarts) is (one is circumstances)
    assert found[0] == found[1]
    assert sum(found[0].values()) >= 3
